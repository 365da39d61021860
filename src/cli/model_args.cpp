#include "cli/model_args.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"

namespace octavo::cli {
namespace {

struct Alias {
  std::string_view name;
  std::string_view file;  // below OCTAVO_HOME
  std::string_view how_to_get;
};

constexpr Alias kAliases[] = {
    {"smollm2", "models/SmolLM2-135M-Instruct.Q4_1.gguf", "scripts/fetch_model.sh fetches it"},
};

// A bar that is drawn anew only when it has grown.
class ProgressBar {
 public:
  void show(int64_t done_bytes, int64_t total_bytes) {
    const int filled =
        total_bytes > 0 ? static_cast<int>(kWidth * done_bytes / total_bytes) : kWidth;
    if (filled == drawn_) return;
    drawn_ = filled;
    std::string bar(static_cast<size_t>(filled), '#');
    bar.resize(kWidth, ' ');
    std::fprintf(stderr, "\rloading [%s] %lld MB", bar.c_str(),
                 static_cast<long long>(done_bytes / 1000000));
  }
  void clear() { std::fputs("\r\033[K", stderr); }

 private:
  static constexpr int kWidth = 30;
  int drawn_ = -1;
};

}  // namespace

ModelArgs::ModelArgs(Args& args) {
  args.positional("MODEL", model_, kModelHelp);
  args.choice("--backend", options_.backend, {"auto", "cpu", "ref"},
              "what computes; ref is slow and exact");
  args.choice("--dtype", options_.dtype, {"auto", "bfloat16", "float32"},
              "arithmetic of matrix products; auto: the fastest for the weights");
  args.choice("--kv-cache-dtype", options_.kv_cache_dtype,
              {"auto", "float32", "bfloat16", "float16"}, "type of cached keys and values");
  args.option("--max-model-len", options_.max_model_len,
              "tokens of context; 0: what the model was trained for");
  args.option("--threads", options_.threads, "0: as many as affinity and cgroup quota allow");
}

Result<std::unique_ptr<Model>> ModelArgs::load() const {
  const std::string path = OCTAVO_TRY(resolve_model(model_));
  LoadOptions options = options_;
  if (isatty(STDERR_FILENO) == 0) return Model::load(path, options);
  ProgressBar bar;
  options.progress = [&bar](int64_t done, int64_t total) { bar.show(done, total); };
  auto model = Model::load(path, options);
  bar.clear();
  return model;
}

Result<std::string> resolve_model(const std::string& model) {
  std::error_code error;
  if (std::filesystem::exists(model, error)) return model;
  for (const Alias& alias : kAliases) {
    if (alias.name != model) continue;
    const std::string path = format("{}/{}", octavo_home(), alias.file);
    if (std::filesystem::exists(path, error)) return path;
    return not_found(
        format("the model {} is not there yet ({}): {}", model, path, alias.how_to_get));
  }
  std::string known;
  for (const Alias& alias : kAliases) known += format(" {}", alias.name);
  return not_found(format("{} is neither a file nor a known alias; aliases:{}", model, known));
}

Result<std::vector<TokenId>> parse_token_ids(const std::string& text, const char* flag) {
  std::vector<TokenId> ids;
  const char* next = text.data();
  const char* const end = next + text.size();
  while (true) {
    while (next < end && *next == ' ') ++next;
    TokenId id = 0;
    const auto [stop, error] = std::from_chars(next, end, id);
    if (error == std::errc::result_out_of_range) {
      return invalid_argument(
          format("{}: the id {} is out of range", flag, std::string(next, stop)));
    }
    if (error != std::errc()) {
      return invalid_argument(
          format("{}: '{}' does not start with an id", flag, std::string(next, end)));
    }
    ids.push_back(id);
    next = stop;
    while (next < end && *next == ' ') ++next;
    if (next == end) return ids;
    if (*next != ',') {
      return invalid_argument(format("{}: ids are separated by commas, not by '{}'", flag, *next));
    }
    ++next;
  }
}

Result<std::string> text_or_stdin(const std::string& argument) {
  if (argument != "-") return argument;
  std::string text;
  char buffer[65536];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), stdin)) > 0;) text.append(buffer, n);
  if (std::ferror(stdin) != 0) {
    return invalid_argument(format("cannot read standard input: {}", std::strerror(errno)));
  }
  return text;
}

}  // namespace octavo::cli
