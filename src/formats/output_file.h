// A file being written that takes its name only when it is whole: until then it has a name of its
// own beside the target. A link keeps pointing to what it points to; what is no regular file (a
// pipe, /dev/stdout) is written to as it is.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "octavo/status.h"

namespace octavo::formats {

class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();  // removes what was not committed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Errors name `path`. No file that exists is touched before commit().
  Status open(const std::string& path);
  bool is_open() const { return file_ != nullptr; }

  Status write(std::span<const std::byte> data);

  // Gives the file its name, and the permissions of the file it replaces; it is closed in any case.
  Status commit();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  Status open_in_place();
  Status open_beside(const std::string& target);
  Status error(const char* action) const;

  std::string path_;       // as it was given, for errors
  std::string target_;     // where it ends
  std::string temporary_;  // what is being written; empty where that is path_ itself
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace octavo::formats
