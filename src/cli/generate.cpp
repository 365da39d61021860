// `octavo generate`: a file of requests becomes a file of answers.
#include <sys/stat.h>

#include <deque>
#include <optional>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "cli/answer_file.h"
#include "cli/args.h"
#include "cli/batch_line.h"
#include "cli/commands.h"
#include "cli/engine_command.h"
#include "cli/line_file.h"
#include "cli/message.h"
#include "cli/progress_bar.h"

namespace octavo::cli {
namespace {

// Lines given to the engine at once, as multiples of max_num_seqs: some wait, so that no step goes
// short. And those kept for the sake of order, behind one whose answer takes long.
constexpr int64_t kSubmittedFactor = 2;
constexpr int64_t kWindowFactor = 8;

Status check_generate(const ServeOptions& options) {
  const GenerateOptions& generate = options.generate;
  if (generate.input.empty()) return invalid_argument("--input is missing");
  if (generate.output.empty()) return invalid_argument("--output is missing");
  if (generate.max_tokens < 0) return invalid_argument("--max-tokens must be 0 or more");
  struct stat input {};
  struct stat output {};
  if (stat(generate.input.c_str(), &input) == 0 && stat(generate.output.c_str(), &output) == 0 &&
      S_ISREG(input.st_mode) && input.st_dev == output.st_dev && input.st_ino == output.st_ino) {
    return invalid_argument("--input and --output are the same file");
  }
  return {};
}

// Requests of a file, for the bar; 0 where it can be read only once.
Result<int64_t> count_requests(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return int64_t{0};
  LineFile file = OCTAVO_TRY(LineFile::open(path));
  FileLine line;
  int64_t count = 0;
  while (OCTAVO_TRY(file.next_filled(line))) ++count;
  return count;
}

// Moves a window over the input: reads, submits, and writes what is answered at its front.
class BatchRun {
 public:
  BatchRun(server::App& app, LineFile& input, AnswerFile& output, const GenerateOptions& options,
           const AnswerFile::Progress& before)
      : context_{app, mailbox_, options.max_tokens, options.debug_page_table},
        input_(input),
        output_(output),
        max_num_seqs_(app.engine().config().max_num_seqs),
        num_answers_(before.num_answers),
        num_failed_(before.num_failed),
        next_index_(before.num_answers) {}

  Status run(int64_t num_requests) {
    std::optional<ProgressBar> bar;
    if (ProgressBar::wanted() && num_requests > 0) bar.emplace("generating");
    while (OCTAVO_TRY(fill())) {
      mailbox_.run();
      OCTAVO_TRY(write_answers());
      if (bar) bar->show(num_answers_, num_requests, "requests");
    }
    return output_.sync();
  }

  int64_t num_answers() const { return num_answers_; }
  int64_t num_failed() const { return num_failed_; }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  // False where there is nothing more to wait for.
  Result<bool> fill() {
    FileLine line;
    while (num_submitted_ < kSubmittedFactor * max_num_seqs_ &&
           static_cast<int64_t>(window_.size()) < kWindowFactor * max_num_seqs_ &&
           OCTAVO_TRY(input_.next_filled(line))) {
      const BatchLine request{next_index_++, line.number, std::move(line.text), line.too_long};
      window_.emplace_back();
      std::optional<BatchAnswer>& slot = window_.back();  // a deque's elements stay where they are
      ++num_submitted_;
      answer_line(context_, request, [this, &slot](BatchAnswer answer) {
        --num_submitted_;
        slot = std::move(answer);
      });
      OCTAVO_TRY(write_answers());
    }
    return !window_.empty();
  }

  Status write_answers() {
    while (!window_.empty() && window_.front()) {
      const BatchAnswer& answer = *window_.front();
      OCTAVO_TRY(answer.engine_status);
      OCTAVO_TRY(output_.append(answer.text));
      ++num_answers_;
      num_failed_ += answer.failed ? 1 : 0;
      num_tokens_ += answer.num_tokens;
      window_.pop_front();
    }
    return {};
  }

  Mailbox mailbox_;
  const BatchContext context_;
  LineFile& input_;
  AnswerFile& output_;
  const int64_t max_num_seqs_;
  int64_t num_answers_;
  int64_t num_failed_;
  int64_t next_index_;
  int64_t num_tokens_ = 0;
  int64_t num_submitted_ = 0;
  std::deque<std::optional<BatchAnswer>> window_;  // of consecutive requests, in order
};

// Returns how many requests failed.
Result<int64_t> generate(const EngineSetup& setup) {
  const GenerateOptions& options = setup.options.generate;
  // Before minutes are spent on loading.
  LineFile input = OCTAVO_TRY(LineFile::open(options.input));
  const auto output = OCTAVO_TRY(AnswerFile::open(options.output, options.overwrite));
  const AnswerFile::Progress before = OCTAVO_TRY(output->resume(input));
  if (before.num_answers > 0) {
    print_hint(format("{} has {} answers already", options.output, before.num_answers));
  }
  const int64_t num_requests =
      ProgressBar::wanted() ? OCTAVO_TRY(count_requests(options.input)) : 0;
  EngineConfig config = setup.options.engine;
  config.max_num_queued_reqs = config.max_num_queued_tokens = kUnboundedQueue;
  const auto engine = OCTAVO_TRY(create_engine(setup.path, config));
  server::App app(*engine, setup.options.server);
  BatchRun run(app, input, *output, options, before);
  const double start = now_seconds();
  const Status status = run.run(num_requests);
  engine->shutdown();  // before what its last events would call is gone
  OCTAVO_TRY(status);
  const double seconds = now_seconds() - start;
  print_hint(format("{} requests answered in {:.1f} s, {} of {} failed, {:.1f} output tokens/s",
                    run.num_answers() - before.num_answers, seconds, run.num_failed(),
                    run.num_answers(),
                    seconds > 0 ? static_cast<double>(run.num_tokens()) / seconds : 0.0));
  return run.num_failed();
}

}  // namespace

int run_generate(int argc, const char* const* argv) {
  const auto setup = set_up_engine(kGenerateCommand, {argv + 1, argv + argc}, check_generate);
  if (const int* exit_code = std::get_if<int>(&setup)) return *exit_code;
  const auto num_failed = generate(std::get<EngineSetup>(setup));
  if (!num_failed.ok()) return fail(num_failed.status());
  return *num_failed == 0 ? kExitOk : kExitFailed;
}

}  // namespace octavo::cli
