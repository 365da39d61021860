// LineFile: the lines of a file, one at a time, in memory that the longest one allowed bounds.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "octavo/status.h"

namespace octavo::cli {

struct FileLine {
  std::string text;        // without its end
  int64_t number = 0;      // from 1 on
  int64_t end_offset = 0;  // bytes of the file up to its end
  bool has_end = false;    // false: the file ends within it
  bool too_long = false;   // more than kMaxLineBytes, which `text` has
  bool is_blank() const { return text.find_first_not_of(" \t\r") == std::string::npos; }
};

class LineFile {
 public:
  static constexpr size_t kMaxLineBytes = size_t{64} << 20;

  static Result<LineFile> open(const std::string& path);

  // False at the end of the file. A byte order mark at its begin is no part of the first line.
  Result<bool> next(FileLine& line);

  // The same without blank lines.
  Result<bool> next_filled(FileLine& line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  LineFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Result<bool> fill();

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<char> buffer_;  // read but not returned: from begin_ on
  size_t begin_ = 0;
  int64_t number_ = 0;
  int64_t offset_ = 0;
};

}  // namespace octavo::cli
