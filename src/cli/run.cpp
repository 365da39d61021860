// `octavo run`: answer one prompt, or chat.
#include <cstdio>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/generate_args.h"
#include "cli/message.h"
#include "cli/model_args.h"
#include "cli/page_table_text.h"
#include "cli/token_json.h"
#include "formats/hf_checkpoint.h"

namespace octavo::cli {
namespace {

struct RunArgs {
  std::string prompt;
  std::string system;
  std::string token_ids;
  std::string json_schema;
  std::string grammar;
  std::string regex;
  bool has_prompt = false;
  bool has_token_ids = false;
  bool raw = false;
  bool json = false;
  bool debug_page_table = false;
};

Result<std::vector<TokenId>> make_prompt(const Model& model, const RunArgs& run) {
  if (run.has_token_ids) return parse_token_ids(run.token_ids);
  if (model.tokenizer() == nullptr) return model.tokenizer_status();
  const std::string text = OCTAVO_TRY(text_or_stdin(run.prompt));
  if (run.raw) return model.tokenizer()->encode(text, {});
  Conversation conversation(run.system);
  conversation.add("user", text);
  return conversation.encode(*model.tokenizer());
}

double rate(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

JsonObject to_json(const Generation& g, const SamplingParams& sampling, double load_s) {
  JsonArray ids(g.token_ids.begin(), g.token_ids.end());
  const int64_t computed = g.usage.prompt_tokens - g.usage.cached_tokens;
  JsonObject report{
      {"text", g.text},
      {"token_ids", std::move(ids)},
      {"finish_reason", finish_reason_name(g.finish_reason)},
      {"usage",
       {{"prompt_tokens", g.usage.prompt_tokens},
        {"completion_tokens", g.usage.completion_tokens},
        {"total_tokens", g.usage.prompt_tokens + g.usage.completion_tokens}}},
      {"timings",
       {{"load_s", load_s},
        {"prefill_s", g.timings.prefill_s},
        {"decode_s", g.timings.decode_s},
        {"prefill_tokens_per_s", rate(computed, g.timings.prefill_s)},
        {"decode_tokens_per_s", rate(g.usage.completion_tokens - 1, g.timings.decode_s)}}}};
  if (sampling.logprobs) report["logprobs"] = logprobs_json(g.logprobs);
  if (sampling.prompt_logprobs) report["prompt_logprobs"] = logprobs_json(g.prompt_logprobs);
  return report;
}

// 128 + SIGINT, as a shell reports it.
constexpr int kExitInterrupted = 130;

int answer(Model& model, const RunArgs& run, const SamplingParams& sampling, double load_s) {
  auto prompt = make_prompt(model, run);
  if (!prompt.ok()) {
    const bool no_template = prompt.status().code() == StatusCode::kUnsupported;
    const int exit_code = fail(prompt.status());
    if (no_template && model.tokenizer() != nullptr) print_hint("--raw works without a template");
    return exit_code;
  }
  Request request;
  request.prompt_token_ids = std::move(*prompt);
  request.sampling = sampling;
  InterruptGuard guard;
  bool writable = true;
  const auto generation = model.generate(request, [&](std::string_view delta) {
    if (!run.json) writable = print_out(delta);
    return writable && !InterruptGuard::interrupted();
  });
  if (!generation.ok()) return fail(generation.status());
  if (run.debug_page_table) std::fputs(page_table_text(model.page_table()).c_str(), stderr);
  writable =
      writable && print_out(run.json ? dump_json(to_json(*generation, sampling, load_s), 2) + "\n"
                                     : std::string("\n"));
  if (InterruptGuard::interrupted()) return kExitInterrupted;
  return writable ? kExitOk : kExitFailed;
}

// What contradicts itself, before minutes are spent on loading.
Status check(const RunArgs& run, const SamplingParams& sampling) {
  if (run.has_prompt && run.has_token_ids) {
    return invalid_argument("give a prompt or --token-ids, not both");
  }
  if (!run.system.empty() && (run.raw || run.has_token_ids)) {
    return invalid_argument("--system needs the chat template: not with --raw or --token-ids");
  }
  if (!run.has_prompt && !run.has_token_ids && (run.raw || run.json || run.debug_page_table)) {
    return invalid_argument("--raw, --json and --debug-page-table need a prompt");
  }
  if (!run.json && (sampling.logprobs || sampling.prompt_logprobs)) {
    return invalid_argument("--logprobs and --prompt-logprobs need --json");
  }
  return run.has_token_ids ? parse_token_ids(run.token_ids).status() : Status();
}

// The form that the flags demand of the answer, from their files.
Status read_structured_outputs(const RunArgs& run, SamplingParams& sampling) {
  const struct {
    const char* flag;
    const std::string& value;
    std::optional<std::string> StructuredOutputs::*kind;
    bool is_file;
  } demands[] = {{"--json-schema", run.json_schema, &StructuredOutputs::json, true},
                 {"--grammar", run.grammar, &StructuredOutputs::grammar, true},
                 {"--regex", run.regex, &StructuredOutputs::regex, false}};
  for (const auto& demand : demands) {
    if (demand.value.empty()) continue;
    if (sampling.structured_outputs) {
      return invalid_argument("give one of --json-schema, --grammar and --regex");
    }
    StructuredOutputs& outputs = sampling.structured_outputs.emplace();
    outputs.*demand.kind =
        demand.is_file ? OCTAVO_TRY(formats::read_text_file(demand.value)) : demand.value;
    outputs.source = demand.is_file ? format("{} {}", demand.flag, demand.value) : demand.flag;
  }
  return {};
}

}  // namespace

int run_run(int argc, const char* const* argv) {
  RunArgs run;
  Args args(
      "run", "Answer a prompt; without one, chat in the terminal.",
      "  octavo run smollm2 \"Why is the sky blue?\"\n"
      "  octavo run smollm2\n"
      "  echo \"long text\" | octavo run model.gguf - --system \"Summarise.\"\n"
      "  octavo run model.gguf \"Once upon a time\" --raw --max-tokens 50 --temperature 0.8\n");
  ModelArgs model_args(args);
  args.positional("PROMPT", run.prompt, "the user's message; - reads standard input", false);
  args.option("--system", run.system, "the system message");
  args.flag("--raw", run.raw, "no chat template: the model goes on where the prompt ends");
  args.option("--token-ids", run.token_ids, "comma-separated ids in place of a prompt");
  SamplingArgs sampling_args(args);
  args.option("--json-schema", run.json_schema, "a file: the answer matches this JSON schema");
  args.option("--grammar", run.grammar, "a file: the answer matches this grammar (GBNF)");
  args.option("--regex", run.regex, "the answer matches this regular expression");
  args.flag("--json", run.json, "print an object with text, token_ids, usage and timings");
  args.flag("--debug-page-table", run.debug_page_table,
            "print on standard error which KV blocks prompt and answer have");
  if (const auto exit_code = args.parse(argc, argv)) return *exit_code;
  run.has_prompt = args.given("PROMPT");
  run.has_token_ids = args.given("--token-ids");
  auto sampling = sampling_args.params();
  Status usage = sampling.status();
  if (usage.ok()) usage = read_structured_outputs(run, *sampling);
  if (usage.ok()) usage = check(run, *sampling);
  if (usage.ok()) usage = validate_sampling(*sampling);
  if (!usage.ok()) {
    print_error(usage.message());
    return kExitUsage;
  }
  const double start = now_seconds();
  const auto model = model_args.load();
  if (!model.ok()) return fail(model.status());
  if (!run.has_prompt && !run.has_token_ids) {
    if ((*model)->tokenizer() == nullptr) return fail((*model)->tokenizer_status());
    return run_chat(**model, *sampling, run.system);
  }
  return answer(**model, run, *sampling, now_seconds() - start);
}

}  // namespace octavo::cli
