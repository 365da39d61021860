#include "cli/model_args.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "backends/registry.h"
#include "base/check.h"
#include "base/format.h"
#include "cli/progress_bar.h"

namespace octavo::cli {
ModelArgs::ModelArgs(Args& args) : model_(args) {
  args.choice("--backend", options_.backend, {"auto", "cpu", "cuda", "ref"},
              "what computes; auto: a GPU that can be used; ref is slow and exact");
  args.choice("--dtype", options_.dtype, {"auto", "bfloat16", "float32"},
              "arithmetic of matrix products; auto: the fastest for the weights");
  args.choice("--kv-cache-dtype", options_.kv_cache_dtype,
              {"auto", "float32", "bfloat16", "float16", "int8", "fp8", "fp8_e4m3"},
              "type of cached keys and values; fp8 on a GPU only");
  args.choice("--attention-backend", options_.attn_implementation, backends::attention_names(),
              "which attention kernels; auto: the best that can run");
  args.option("--max-model-len", options_.max_model_len,
              "tokens of context; 0: what the model was trained for");
  args.flag("--no-repack", no_repack_,
            "read weights where the file lies, without a copy in the fastest layout");
  args.option("--threads", options_.threads, "0: as many as affinity and cgroup quota allow");
}

Result<std::unique_ptr<Model>> ModelArgs::load() const {
  return load(OCTAVO_TRY(model_.resolve()));
}

Result<std::unique_ptr<Model>> ModelArgs::load(const std::string& path) const {
  LoadOptions options = options_;
  options.repack = !no_repack_;
  if (!ProgressBar::wanted()) return Model::load(path, options);
  ProgressBar bar("loading");
  options.progress = [&bar](int64_t done, int64_t total) { bar.show_bytes(done, total); };
  return Model::load(path, options);
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
