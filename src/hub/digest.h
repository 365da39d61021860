// Digests by which the hub names what a file holds. The only wrapper of OpenSSL is digest.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace octavo::hub {

class Digest {
 public:
  // The digest that `etag` is one of: SHA-256 of the content (64 digits), or Git's name of a blob
  // of `size_bytes` (40 digits). Null where it is neither, and content cannot be checked by it.
  static std::unique_ptr<Digest> for_etag(std::string_view etag, int64_t size_bytes);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void update(std::string_view bytes);

  // In lower-case hexadecimal digits; nothing may follow.
  std::string finish();

 private:
  Digest();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::hub
