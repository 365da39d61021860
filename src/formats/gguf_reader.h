// GgufReader: a cursor over the bytes of a GGUF file that never reads past their end. It knows what
// is being read, so that every error names the file, the key or tensor, and the byte. Strings are
// views into the file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "octavo/status.h"

namespace octavo::formats {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place: little-endian");

// A name from a file, for messages: quoted, cut to 64 bytes, without control characters.
std::string quoted_name(std::string_view name);

class GgufReader {
 public:
  // Both must outlive the reader.
  GgufReader(std::string_view path, std::span<const std::byte> bytes)
      : path_(path), bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  // What the following reads belong to: `kind` is "key" or "tensor" (a literal) and `index` counts
  // from 0. The name is added once it has been read; "" for `kind` means the header.
  void set_subject(const char* kind, uint64_t index) {
    subject_kind_ = kind;
    subject_index_ = index;
    subject_name_ = {};
  }
  void set_subject_name(std::string_view name) { subject_name_ = name; }

  // The next bytes as a number. `what` names the field in the error.
  template <typename T>
  Result<T> number(std::string_view what) {
    field_offset_ = offset_;
    if (remaining() < sizeof(T)) return truncated(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // A 64-bit length and that many bytes, at most `max_bytes`.
  Result<std::string_view> string(std::string_view what, uint64_t max_bytes);

  Result<std::span<const std::byte>> take(std::string_view what, uint64_t size_bytes);

  // An error about the field read last.
  Status error(StatusCode code, std::string_view problem) const {
    return error_at(field_offset_, code, problem);
  }
  Status error_at(uint64_t offset, StatusCode code, std::string_view problem) const;

 private:
  Status truncated(std::string_view what, uint64_t wanted_bytes) const;

  std::string_view path_;
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
  uint64_t field_offset_ = 0;  // where the field read last begins
  const char* subject_kind_ = "";
  uint64_t subject_index_ = 0;
  std::string_view subject_name_;
};

}  // namespace octavo::formats
