// BlobWriter: the content of one file on its way to the disk, at `PATH.incomplete` until it is
// whole and its digest is right. What an earlier process left there is gone on with.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hub/digest.h"
#include "hub/http.h"
#include "hub/protocol.h"

namespace octavo::hub {

// Called with the bytes that came, less than 0 where some turned out to be worthless; its error
// ends the transfer. From any thread.
using TransferProgress = std::function<Status(int64_t bytes)>;

class BlobWriter final : public HttpBody {
 public:
  // `name` starts every error message.
  static Result<std::unique_ptr<BlobWriter>> open(const std::string& path, const FileInfo& info,
                                                  std::string name, TransferProgress progress);
  ~BlobWriter() override;
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  int64_t offset() const override { return offset_; }
  Status begin(const HttpResponse& response) override;
  Status write(std::string_view bytes) override;
  bool complete() const override { return offset_ == info_.size_bytes; }

  // Whether some of the bytes were there before.
  bool resumed() const { return resumed_; }

  // Forgets all bytes.
  Status restart();

  // Of a complete file: whether its digest is right. It is then at `path`; else restart() helps, or
  // nothing.
  Result<bool> finish();

 private:
  BlobWriter() = default;
  Status read_existing();
  Status fail(const char* what) const;

  std::string path_;
  std::string incomplete_path_;
  std::string name_;
  FileInfo info_;
  TransferProgress progress_;
  int fd_ = -1;
  int64_t offset_ = 0;
  bool resumed_ = false;
  std::unique_ptr<Digest> digest_;
};

}  // namespace octavo::hub
