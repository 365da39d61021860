// LineReader: lines of standard input, noticing Ctrl-C while it waits.
#pragma once

#include <cstddef>
#include <string>

namespace octavo::cli {

enum class ReadResult { kLine, kEnd, kInterrupted, kError };

class LineReader {
 public:
  // The next line without its end. kInterrupted forgets what was read ahead; after kError errno
  // says why.
  ReadResult next(std::string& line);

 private:
  std::string pending_;  // read but not returned: from begin_ on
  size_t begin_ = 0;
  size_t searched_ = 0;  // there is no newline in [begin_, searched_)
};

}  // namespace octavo::cli
