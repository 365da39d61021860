// EventReader: the server-sent events of a streamed answer, of which each is one line of data,
// whatever pieces the stream comes in.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo::cli {

class EventReader {
 public:
  using DataFn = std::function<Status(std::string_view data)>;

  // Calls `on_data` with the data of each event that `bytes` end. Its error ends that too; so does
  // an event of more than 16 MiB, or one after the last.
  Status read(std::string_view bytes, const DataFn& on_data);

  // Whether "[DONE]" has come, which is not shown to `on_data`.
  bool done() const { return done_; }

  // The beginning of what came and is no event: most likely what a server says in place of events.
  std::string other() const;

 private:
  Status take_line(std::string_view line, const DataFn& on_data);

  std::string pending_;  // an unfinished line
  std::string other_;
  bool done_ = false;
};

}  // namespace octavo::cli
