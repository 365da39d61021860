// AnswerFile: where `octavo generate` writes, one line for each request and in their order, so that
// the number of its lines says how far a run came that was killed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cli/line_file.h"
#include "octavo/status.h"

namespace octavo::cli {

class AnswerFile {
 public:
  // Makes the file where it is missing, and keeps other processes from writing it. What is no
  // regular file is only written to.
  static Result<std::unique_ptr<AnswerFile>> open(const std::string& path, bool overwrite);

  ~AnswerFile();
  AnswerFile(const AnswerFile&) = delete;
  AnswerFile& operator=(const AnswerFile&) = delete;

  // Reads as many requests of `input` as there are whole answers, and cuts off a part of one that
  // follows. An answer that does not belong to its request is an error.
  struct Progress {
    int64_t num_answers = 0;
    int64_t num_failed = 0;  // of these
  };
  Result<Progress> resume(LineFile& input);

  // Adds a line, whole or not at all as far as the caller lives to see it.
  Status append(std::string line);

  // Waits until what was written is on the disk.
  Status sync();

 private:
  AnswerFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  bool is_regular_ = false;
  int64_t size_bytes_ = 0;
};

}  // namespace octavo::cli
