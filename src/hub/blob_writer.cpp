#include "hub/blob_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/format.h"

namespace octavo::hub {
namespace {

// Where the content of a 206 answer begins and how long the file is, -1 where it does not say:
// "bytes 10-99/100".
struct ContentRange {
  int64_t begin = -1;
  int64_t size = -1;
};

ContentRange parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  ContentRange range;
  if (!text.starts_with(kUnit)) return range;
  text.remove_prefix(kUnit.size());
  std::from_chars(text.data(), text.data() + text.size(), range.begin);
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return range;
  std::from_chars(text.data() + slash + 1, text.data() + text.size(), range.size);
  return range;
}

}  // namespace

Result<std::unique_ptr<BlobWriter>> BlobWriter::open(const std::string& path, const FileInfo& info,
                                                     std::string name, TransferProgress progress) {
  std::unique_ptr<BlobWriter> writer(new BlobWriter());
  writer->path_ = path;
  writer->incomplete_path_ = path + ".incomplete";
  writer->name_ = std::move(name);
  writer->info_ = info;
  writer->progress_ = std::move(progress);
  writer->fd_ = ::open(writer->incomplete_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (writer->fd_ < 0) return writer->fail("open");
  OCTAVO_TRY(writer->read_existing());
  return writer;
}

BlobWriter::~BlobWriter() {
  if (fd_ >= 0) close(fd_);
}

Status BlobWriter::fail(const char* what) const {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return Status(
      full ? StatusCode::kResourceExhausted : StatusCode::kInternal,
      format("{}: cannot {} {}: {}", name_, what, incomplete_path_, std::strerror(errno)));
}

// The digest needs what is there already.
Status BlobWriter::read_existing() {
  const off_t size = lseek(fd_, 0, SEEK_END);
  if (size < 0) return fail("read");
  digest_ = Digest::for_etag(info_.etag, info_.size_bytes);
  if (size > info_.size_bytes) return restart();
  if (lseek(fd_, 0, SEEK_SET) < 0) return fail("read");
  std::vector<char> buffer(1 << 20);
  while (offset_ < size) {
    const ssize_t n = read(fd_, buffer.data(), buffer.size());
    if (n < 0) return fail("read");
    if (n == 0) break;
    if (digest_ != nullptr) digest_->update({buffer.data(), static_cast<size_t>(n)});
    offset_ += n;
    OCTAVO_TRY(progress_(n));
  }
  resumed_ = offset_ > 0;
  return {};
}

Status BlobWriter::restart() {
  if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) < 0) return fail("write");
  OCTAVO_TRY(progress_(-offset_));
  offset_ = 0;
  resumed_ = false;
  digest_ = Digest::for_etag(info_.etag, info_.size_bytes);
  return {};
}

Status BlobWriter::begin(const HttpResponse& response) {
  const auto wrong_size = [&](int64_t size) {
    return data_loss(format("{}: the server sends a file of {} bytes; the hub says {}", name_, size,
                            info_.size_bytes));
  };
  if (response.status == 206) {
    const ContentRange range = parse_content_range(response.header("content-range"));
    if (range.begin != offset_) {
      return data_loss(format("{}: the server was asked for the bytes from {} on and sends '{}'",
                              name_, offset_, response.header("content-range")));
    }
    return range.size >= 0 && range.size != info_.size_bytes ? wrong_size(range.size) : Status();
  }
  if (offset_ > 0) OCTAVO_TRY(restart());  // the server knows no ranges
  const std::string_view length = response.header("content-length");
  int64_t size = info_.size_bytes;
  std::from_chars(length.data(), length.data() + length.size(), size);
  return size != info_.size_bytes ? wrong_size(size) : Status();
}

Status BlobWriter::write(std::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > info_.size_bytes - offset_) {
    return data_loss(
        format("{}: the server sends more than the {} bytes that it has", name_, info_.size_bytes));
  }
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno != EINTR) return fail("write");
    if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
  }
  if (digest_ != nullptr) digest_->update(bytes);
  offset_ += static_cast<int64_t>(bytes.size());
  return progress_(static_cast<int64_t>(bytes.size()));
}

Result<bool> BlobWriter::finish() {
  OCTAVO_CHECK(complete());
  if (digest_ != nullptr && digest_->finish() != info_.etag) {
    OCTAVO_TRY(restart());
    return false;
  }
  // A name in the cache is a promise that the content is whole, also after a power cut.
  if (fdatasync(fd_) != 0) return fail("write");
  if (std::rename(incomplete_path_.c_str(), path_.c_str()) != 0) return fail("rename");
  return true;
}

}  // namespace octavo::hub
