#include "cli/answer_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"

namespace octavo::cli {
namespace {

bool is_text(const Json* value, std::string_view text) {
  return value != nullptr && value->is_string() && to_view(value->get_string()) == text;
}

// By its index, or by the custom_id of OpenAI's form.
bool belongs_to(const Json& answer, int64_t index, const std::string& request_line) {
  if (const Json* found = json_find(answer, "index")) {
    return found->is_int64() && found->get_int64() == index;
  }
  const Json* id = json_find(answer, "custom_id");
  if (id == nullptr || !id->is_string()) return false;
  const auto request = parse_json(request_line, "");
  return request.ok() && is_text(json_find(*request, "custom_id"), to_view(id->get_string()));
}

}  // namespace

Result<std::unique_ptr<AnswerFile>> AnswerFile::open(const std::string& path, bool overwrite) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return not_found(format("{}: cannot be written: {}", path, std::strerror(errno)));
  std::unique_ptr<AnswerFile> file(new AnswerFile(path, fd));
  struct stat info {};
  if (fstat(fd, &info) != 0) return internal_error(format("{}: {}", path, std::strerror(errno)));
  file->is_regular_ = S_ISREG(info.st_mode);
  if (!file->is_regular_) return file;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return unavailable(format("{}: another process is writing it", path));
  }
  if (overwrite && ftruncate(fd, 0) != 0) {
    return internal_error(format("{}: cannot be emptied: {}", path, std::strerror(errno)));
  }
  return file;
}

AnswerFile::~AnswerFile() {
  close(fd_);
}

Result<AnswerFile::Progress> AnswerFile::resume(LineFile& input) {
  Progress progress;
  if (!is_regular_) return progress;
  LineFile answers = OCTAVO_TRY(LineFile::open(path_));
  FileLine line;
  FileLine request;
  while (OCTAVO_TRY(answers.next(line)) && line.has_end) {
    const auto answer = parse_json(line.text, "");
    const bool known = OCTAVO_TRY(input.next_filled(request)) && answer.ok() &&
                       belongs_to(*answer, progress.num_answers, request.text);
    if (!known) {
      return invalid_argument(format(
          "{}: line {} is no answer to request {} of the input: name another file, or --overwrite "
          "this one",
          path_, line.number, progress.num_answers));
    }
    if (json_find(*answer, "error") != nullptr) ++progress.num_failed;
    ++progress.num_answers;
    size_bytes_ = line.end_offset;
  }
  if (ftruncate(fd_, size_bytes_) != 0 || lseek(fd_, size_bytes_, SEEK_SET) < 0) {
    return internal_error(format("{}: cannot be cut: {}", path_, std::strerror(errno)));
  }
  return progress;
}

Status AnswerFile::append(std::string line) {
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      // What is left of the line if that fails is cut off when the run is gone on with.
      if (is_regular_ && ftruncate(fd_, size_bytes_) != 0) errno = error;
      return data_loss(format("{}: cannot be written: {}", path_, std::strerror(error)));
    }
    done += static_cast<size_t>(n);
  }
  size_bytes_ += static_cast<int64_t>(line.size());
  return {};
}

Status AnswerFile::sync() {
  if (!is_regular_ || fdatasync(fd_) == 0) return {};
  return data_loss(format("{}: cannot be written: {}", path_, std::strerror(errno)));
}

}  // namespace octavo::cli
