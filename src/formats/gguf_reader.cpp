#include "formats/gguf_reader.h"

#include "base/format.h"
#include "base/utf8.h"

namespace octavo::formats {

std::string quoted_name(std::string_view name) {
  constexpr size_t kMaxShownBytes = 64;
  return format("'{}{}'", printable(name.substr(0, kMaxShownBytes)),
                name.size() > kMaxShownBytes ? "..." : "");
}

Result<std::string_view> GgufReader::string(std::string_view what, uint64_t max_bytes) {
  const uint64_t size = OCTAVO_TRY(number<uint64_t>(what));
  if (size > remaining()) return truncated(what, size);
  if (size > max_bytes) {
    return error(StatusCode::kDataLoss,
                 format("{} has {} bytes, more than the {} allowed", what, size, max_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + offset_), size);
  offset_ += size;
  return text;
}

Result<std::span<const std::byte>> GgufReader::take(std::string_view what, uint64_t size_bytes) {
  field_offset_ = offset_;
  if (size_bytes > remaining()) return truncated(what, size_bytes);
  offset_ += size_bytes;
  return bytes_.subspan(field_offset_, size_bytes);
}

Status GgufReader::truncated(std::string_view what, uint64_t wanted_bytes) const {
  return error(StatusCode::kDataLoss, format("{} wants {} bytes, but {} are left in the file", what,
                                             wanted_bytes, remaining()));
}

Status GgufReader::error_at(uint64_t offset, StatusCode code, std::string_view problem) const {
  std::string subject;
  if (!subject_name_.empty()) {
    subject = format("{} {}: ", subject_kind_, quoted_name(subject_name_));
  } else if (*subject_kind_ != '\0') {
    subject = format("{} number {}: ", subject_kind_, subject_index_ + 1);
  }
  return {code, format("{}: {}{}, at byte {}", path_, subject, problem, offset)};
}

}  // namespace octavo::formats
