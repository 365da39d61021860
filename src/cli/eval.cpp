// `octavo eval`: the perplexity of a model on a text, and how far the predictions of two models are
// from each other.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "base/percentile.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/eval_windows.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "cli/progress_bar.h"
#include "formats/output_file.h"

namespace octavo::cli {
namespace {

// The flags that both measures take.
struct EvalArgs {
  std::string text;
  int64_t ctx_size = 512;
  int64_t stride = 0;
  bool json = false;

  explicit EvalArgs(Args& args) {
    args.option("--text", text, "the file with the text; required");
    args.option("--ctx-size", ctx_size, "tokens of a window");
    args.option("--stride", stride,
                "0: windows lie side by side, the second half of each is counted; else the windows "
                "begin that many tokens apart, and as many at the end of each are counted");
    args.flag("--json", json, "print JSON");
  }

  // Prints what is wrong; false for nothing.
  bool usage_error() const {
    if (text.empty()) print_error("--text is required");
    return text.empty();
  }
};

// A text as a model sees it.
struct EvalText {
  std::vector<TokenId> token_ids;
  std::vector<EvalWindow> windows;
  TokenId bos_id = -1;  // that begins a window; -1: none does
};

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  // Nothing to copy is a failure of the copy.
  if (!file.is_open() || !text) return not_found(format("cannot read {}, or it is empty", path));
  return text.str();
}

Result<std::vector<TokenId>> encode_text(const Model& model, const std::string& text) {
  if (model.tokenizer() == nullptr) return model.tokenizer_status();
  return model.tokenizer()->encode(text, {.add_special = true, .parse_special = true});
}

Result<EvalText> prepare(const Model& model, const std::string& text, const EvalArgs& args) {
  EvalText result;
  result.token_ids = OCTAVO_TRY(encode_text(model, text));
  const auto num_tokens = static_cast<int64_t>(result.token_ids.size());
  result.windows = OCTAVO_TRY(plan_eval_windows(num_tokens, args.ctx_size, args.stride));
  const TokenId bos_id = model.tokenizer()->bos_id();
  // llama-perplexity leaves windows with a stride as they are cut.
  if (args.stride == 0 && result.token_ids[0] == bos_id) result.bos_id = bos_id;
  return result;
}

// Calls on_row for every counted token of all windows, with a progress bar on a terminal.
Status walk(std::span<Model* const> models, const EvalText& text, const EvalRowFn& on_row) {
  ProgressBar bar("evaluating");
  for (size_t i = 0; i < text.windows.size(); ++i) {
    OCTAVO_TRY(eval_window(models, text.token_ids, text.windows[i], text.bos_id, on_row));
    if (ProgressBar::wanted()) {
      bar.show(static_cast<int64_t>(i + 1), static_cast<int64_t>(text.windows.size()), "windows");
    }
  }
  return {};
}

JsonObject describe_perplexity(const SampleMean& nll) {
  const double perplexity = std::exp(nll.mean());
  return {{"nll", nll.mean()},
          {"nll_standard_error", nll.standard_error()},
          {"perplexity", perplexity},
          {"perplexity_standard_error", perplexity * nll.standard_error()}};
}

JsonObject describe_text(const EvalArgs& args, const EvalText& text, int64_t counted) {
  return {{"text", args.text},
          {"ctx_size", args.ctx_size},
          {"stride", args.stride},
          {"windows", text.windows.size()},
          {"tokens", counted}};
}

std::string render_perplexity(const JsonObject& r) {
  return format("{:.4f} ± {:.4f} (mean NLL {:.5f} ± {:.5f})", r.at("perplexity").as_double(),
                r.at("perplexity_standard_error").as_double(), r.at("nll").as_double(),
                r.at("nll_standard_error").as_double());
}

std::string render_text(const JsonObject& r) {
  return format(
      "{} tokens in {} windows of {}{}\n", r.at("tokens").as_int64(),
      r.at("windows").to_number<int64_t>(), r.at("ctx_size").as_int64(),
      r.at("stride").as_int64() == 0 ? "" : format(", stride {}", r.at("stride").as_int64()));
}

int print_report(const JsonObject& report, bool json, const std::string& text) {
  return print_out(json ? dump_json(report, 2) + "\n" : text) ? kExitOk : kExitFailed;
}

// --- perplexity ---

// One a line; enough digits for a float, which logits are.
Status write_values(formats::OutputFile& file, std::span<const double> values) {
  std::string text;
  for (const double value : values) text += format("{:.9g}\n", value);
  OCTAVO_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<JsonObject> measure_perplexity(Model& model, const EvalArgs& args,
                                      const std::string& nll_path) {
  const std::string content = OCTAVO_TRY(read_text(args.text));
  const EvalText text = OCTAVO_TRY(prepare(model, content, args));
  formats::OutputFile nll_file;
  if (!nll_path.empty()) OCTAVO_TRY(nll_file.open(nll_path));
  SampleMean nll;
  std::vector<double> values;
  Model* const models[] = {&model};
  OCTAVO_TRY(walk(models, text, [&](TokenId id, auto logits) -> Status {
    values.push_back(negative_log_likelihood(logits[0], id));
    nll.add(values.back());
    return {};
  }));
  if (!std::isfinite(nll.mean())) {
    return data_loss(format("{}: the model's logits hold NaN", model.info().path));
  }
  if (nll_file.is_open()) OCTAVO_TRY(write_values(nll_file, values));
  JsonObject report{{"model", model.info().path}};
  for (const auto& item : describe_text(args, text, nll.count())) report.insert(item);
  for (const auto& item : describe_perplexity(nll)) report.insert(item);
  return report;
}

int run_perplexity(int argc, const char* const* argv) {
  Args args(
      "eval perplexity",
      "Measure the perplexity of a model on a text: e to the mean negative log-likelihood\n"
      "(NLL) of its tokens. Windows and counting are those of llama.cpp's llama-perplexity.",
      "  octavo eval perplexity smollm2 --text wiki.test.raw\n"
      "  octavo eval perplexity smollm2 --text wiki.test.raw --dtype float32 --save-nll exact\n"
      "  octavo eval perplexity model.gguf --text book.txt --ctx-size 2048 --json\n");
  ModelArgs model_args(args);
  const EvalArgs eval(args);
  std::string nll_path;
  args.option("--save-nll", nll_path,
              "a file for the NLL of every counted token, one a line: two runs on one text can be "
              "compared token by token");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  if (eval.usage_error()) return kExitUsage;
  const auto model = model_args.load();
  if (!model.ok()) return fail(model.status());
  const auto report = measure_perplexity(**model, eval, nll_path);
  if (!report.ok()) return fail(report.status());
  return print_report(
      *report, eval.json,
      format("perplexity {}\n{}", render_perplexity(*report), render_text(*report)));
}

// --- compare ---

size_t best_token(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// What two models can be compared by: they must speak of the same tokens.
Status check_same_tokens(const Model& a, const Model& b, const std::string& text) {
  if (a.info().vocab_size != b.info().vocab_size) {
    return invalid_argument(format("{} has a vocabulary of {}, {} one of {}: no comparison",
                                   a.info().path, a.info().vocab_size, b.info().path,
                                   b.info().vocab_size));
  }
  if (OCTAVO_TRY(encode_text(a, text)) == OCTAVO_TRY(encode_text(b, text))) return {};
  return invalid_argument(format("{} and {} make different tokens of the text: no comparison",
                                 a.info().path, b.info().path));
}

Result<JsonObject> compare_models(Model& a, Model& b, const EvalArgs& args) {
  const std::string content = OCTAVO_TRY(read_text(args.text));
  OCTAVO_TRY(check_same_tokens(a, b, content));
  const EvalText text = OCTAVO_TRY(prepare(a, content, args));
  SampleMean nll_a;
  SampleMean nll_b;
  SampleMean kl;
  int64_t same_top = 0;
  std::vector<float> divergences;
  Model* const models[] = {&a, &b};
  OCTAVO_TRY(walk(models, text, [&](TokenId id, auto logits) -> Status {
    nll_a.add(negative_log_likelihood(logits[0], id));
    nll_b.add(negative_log_likelihood(logits[1], id));
    divergences.push_back(static_cast<float>(kl_divergence(logits[0], logits[1])));
    kl.add(divergences.back());
    same_top += best_token(logits[0]) == best_token(logits[1]) ? 1 : 0;
    return {};
  }));
  if (!std::isfinite(kl.mean())) {
    return data_loss(format("{} or {}: the model's logits hold NaN", a.info().path, b.info().path));
  }
  const float largest = *std::max_element(divergences.begin(), divergences.end());
  JsonObject report{{"model_a", a.info().path}, {"model_b", b.info().path}};
  for (const auto& item : describe_text(args, text, kl.count())) report.insert(item);
  report.emplace("a", describe_perplexity(nll_a));
  report.emplace("b", describe_perplexity(nll_b));
  report.emplace("kl_divergence", JsonObject{{"mean", kl.mean()},
                                             {"mean_standard_error", kl.standard_error()},
                                             {"median", percentile(divergences, 50)},
                                             {"p99", percentile(divergences, 99)},
                                             {"max", static_cast<double>(largest)}});
  report.emplace("top1_agreement", static_cast<double>(same_top) / static_cast<double>(kl.count()));
  return report;
}

std::string render_comparison(const JsonObject& r) {
  const JsonObject& kl = r.at("kl_divergence").as_object();
  return format(
      "perplexity A      {}\nperplexity B      {}\n"
      "KL(A || B)        mean {:.6f} ± {:.6f}, median {:.6f}, 99th percentile {:.6f}, max {:.6f}\n"
      "same first choice {:.2f} %\n{}",
      render_perplexity(r.at("a").as_object()), render_perplexity(r.at("b").as_object()),
      kl.at("mean").as_double(), kl.at("mean_standard_error").as_double(),
      kl.at("median").as_double(), kl.at("p99").as_double(), kl.at("max").as_double(),
      100 * r.at("top1_agreement").as_double(), render_text(r));
}

int run_compare(int argc, const char* const* argv) {
  std::string other;
  Args args("eval compare",
            "Measure how far the predictions of OTHER are from those of MODEL on a text:\n"
            "Kullback-Leibler divergence, agreement of the first choice, both perplexities.",
            "  octavo eval compare model-f16.gguf model-q4_0.gguf --text wiki.test.raw\n");
  ModelArgs model_args(args);
  args.positional("OTHER", other, "the model that is compared with MODEL");
  const EvalArgs eval(args);
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  if (eval.usage_error()) return kExitUsage;
  const auto a = model_args.load();
  if (!a.ok()) return fail(a.status());
  const auto other_path = resolve_model(other);
  if (!other_path.ok()) return fail(other_path.status());
  const auto b = model_args.load(*other_path);
  if (!b.ok()) return fail(b.status());
  const auto report = compare_models(**a, **b, eval);
  if (!report.ok()) return fail(report.status());
  return print_report(*report, eval.json, render_comparison(*report));
}

struct Measure {
  std::string_view name;
  std::string_view summary;
  int (*run)(int argc, const char* const* argv);
};

constexpr Measure kMeasures[] = {
    {"perplexity", "how well a model predicts a text", run_perplexity},
    {"compare", "how far two models are from each other", run_compare},
};

}  // namespace

int run_eval(int argc, const char* const* argv) {
  const std::string_view name = argc < 2 ? "" : argv[1];
  for (const Measure& measure : kMeasures) {
    if (measure.name == name) return measure.run(argc - 1, argv + 1);
  }
  std::string usage = "Usage: octavo eval MEASURE [ARGUMENTS]\n\nMeasures:\n";
  for (const Measure& measure : kMeasures) {
    usage += format("  {:<11} {}\n", measure.name, measure.summary);
  }
  usage += "\nExamples:\n  octavo eval perplexity --help\n";
  if (name == "--help" || name == "-h") return print_out(usage) ? kExitOk : kExitFailed;
  print_error(name.empty() ? "no measure given" : format("unknown measure '{}'", name));
  std::fputs(usage.c_str(), stderr);
  return kExitUsage;
}

}  // namespace octavo::cli
