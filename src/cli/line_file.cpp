#include "cli/line_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/format.h"

namespace octavo::cli {
namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

Result<LineFile> LineFile::open(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return not_found(format("{}: {}", path, std::strerror(errno)));
  LineFile lines(path, file);
  struct stat info {};
  if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
    return invalid_argument(format("{}: cannot be read: it is a folder", path));
  }
  return lines;
}

// Whether there is something in the buffer.
Result<bool> LineFile::fill() {
  if (begin_ < buffer_.size()) return true;
  buffer_.resize(kBufferBytes);
  buffer_.resize(std::fread(buffer_.data(), 1, kBufferBytes, file_.get()));
  begin_ = 0;
  if (buffer_.empty() && std::ferror(file_.get()) != 0) {
    return data_loss(format("{}: cannot be read: {}", path_, std::strerror(errno)));
  }
  return !buffer_.empty();
}

Result<bool> LineFile::next(FileLine& line) {
  line = {};
  line.number = ++number_;
  bool any = false;
  while (!line.has_end && OCTAVO_TRY(fill())) {
    any = true;
    const auto begin = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_);
    const auto end = std::find(begin, buffer_.end(), '\n');
    line.has_end = end != buffer_.end();
    const auto size = static_cast<size_t>(end - begin);
    const size_t room = kMaxLineBytes - line.text.size();
    line.too_long = line.too_long || size > room;
    line.text.append(begin, begin + static_cast<std::ptrdiff_t>(std::min(size, room)));
    const size_t taken = size + (line.has_end ? 1 : 0);
    begin_ += taken;
    offset_ += static_cast<int64_t>(taken);
  }
  line.end_offset = offset_;
  if (line.number == 1 && line.text.starts_with(kByteOrderMark)) {
    line.text.erase(0, kByteOrderMark.size());
  }
  return any;
}

Result<bool> LineFile::next_filled(FileLine& line) {
  while (OCTAVO_TRY(next(line))) {
    if (!line.is_blank()) return true;
  }
  return false;
}

}  // namespace octavo::cli
