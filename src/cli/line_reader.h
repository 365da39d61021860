// LineReader: lines of standard input, noticing Ctrl-C while it waits; and the loop of a chat.
#pragma once

#include <cstddef>
#include <functional>
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

// Calls `on_line` for each line that is not empty, until the input ends or it returns false; the
// exit code. On a terminal a prompt stands before each line, and Ctrl-C begins a new one.
int for_each_typed_line(const std::function<bool(const std::string& line)>& on_line);

}  // namespace octavo::cli
