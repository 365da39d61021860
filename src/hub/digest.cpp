#include "hub/digest.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace octavo::hub {
namespace {

constexpr size_t kSha1Digits = 40;
constexpr size_t kSha256Digits = 64;

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

struct Digest::Impl {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  EVP_MD_CTX_free};
};

Digest::Digest() : impl_(std::make_unique<Impl>()) {}
Digest::~Digest() = default;

std::unique_ptr<Digest> Digest::for_etag(std::string_view etag, int64_t size_bytes) {
  const bool sha256 = etag.size() == kSha256Digits;
  if ((!sha256 && etag.size() != kSha1Digits) || !is_hex(etag)) return nullptr;
  std::unique_ptr<Digest> digest(new Digest());
  EVP_MD_CTX* const context = digest->impl_->context.get();
  OCTAVO_CHECK(context != nullptr);
  if (EVP_DigestInit_ex(context, sha256 ? EVP_sha256() : EVP_sha1(), nullptr) != 1) {
    return nullptr;  // a policy of the machine forbids it
  }
  if (!sha256) {
    const std::string header = format("blob {}", size_bytes);
    digest->update({header.c_str(), header.size() + 1});  // with the zero at its end
  }
  return digest;
}

void Digest::update(std::string_view bytes) {
  const int updated = EVP_DigestUpdate(impl_->context.get(), bytes.data(), bytes.size());
  OCTAVO_CHECK(updated == 1);
}

std::string Digest::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int finished = EVP_DigestFinal_ex(impl_->context.get(), bytes, &size);
  OCTAVO_CHECK(finished == 1);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += format("{:02x}", bytes[i]);
  return text;
}

}  // namespace octavo::hub
