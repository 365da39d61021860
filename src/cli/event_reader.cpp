#include "cli/event_reader.h"

namespace octavo::cli {
namespace {

constexpr size_t kMaxEventBytes = 16U << 20;
constexpr size_t kMaxOtherBytes = 1000;

}  // namespace

Status EventReader::read(std::string_view bytes, const DataFn& on_data) {
  pending_ += bytes;
  Status status;
  size_t begin = 0;
  for (size_t end; status.ok() && (end = pending_.find('\n', begin)) != std::string::npos;) {
    status = take_line(std::string_view(pending_).substr(begin, end - begin), on_data);
    begin = end + 1;
  }
  pending_.erase(0, begin);
  if (pending_.size() <= kMaxEventBytes) return status;
  pending_.clear();
  return data_loss("an event does not end");
}

std::string EventReader::other() const {
  return (other_ + pending_).substr(0, kMaxOtherBytes);
}

Status EventReader::take_line(std::string_view line, const DataFn& on_data) {
  constexpr std::string_view kData = "data:";
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with(kData)) {
    if (other_.size() < kMaxOtherBytes) other_ += line;
    return {};
  }
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (done_) return data_loss("an event came after [DONE]");
  if (line != "[DONE]") return on_data(line);
  done_ = true;
  return {};
}

}  // namespace octavo::cli
