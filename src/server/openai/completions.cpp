// POST /v1/completions.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "server/openai/answer.h"
#include "server/openai/error.h"
#include "server/openai/fields.h"
#include "server/openai/generation.h"
#include "server/openai/handlers.h"
#include "server/openai/prompts.h"

namespace octavo::server {
namespace {

struct CompletionsRequest {
  GenerationOptions options;
  std::vector<Prompt> prompts;
  bool echo = false;
  bool prompt_logprobs = false;  // asked for, not only needed for echo
  bool prompt_only = false;      // max_tokens 0 with echo: what evaluations send
};

class CompletionsFormat final : public OutputFormat {
 public:
  CompletionsFormat(AnswerContext context, CompletionsRequest& request)
      : context_(std::move(context)),
        chunk_begin_(context_.chunk_begin("text_completion")),
        prompts_(std::move(request.prompts)),
        echo_(request.echo),
        prompt_logprobs_(request.prompt_logprobs),
        prompt_only_(request.prompt_only),
        usage_(prompts_.size()),
        prompt_logprobs_seen_(prompts_.size()) {
    const size_t num_answers = prompts_.size() * static_cast<size_t>(context_.n);
    begun_.resize(num_answers);
    for (size_t i = 0; i < num_answers; ++i) logprobs_.emplace_back(context_);
  }

  std::string whole(const std::vector<RequestOutput>& outputs) override {
    JsonArray choices;
    for (size_t i = 0; i < outputs.size(); ++i) {
      prompt_logprobs_seen_[i] = outputs[i].prompt_logprobs;
      for (const CompletionOutput& answer : outputs[i].outputs) {
        JsonObject choice = make_choice(i, answer);
        choice["prompt_logprobs"] =
            prompt_logprobs_ ? Json(context_.prompt_logprobs(outputs[i].prompt_logprobs)) : Json();
        choices.push_back(std::move(choice));
      }
    }
    JsonObject body = context_.head("text_completion");
    body["service_tier"] = nullptr;
    body["choices"] = std::move(choices);
    body["usage"] = usage_json(counted(total_usage(outputs)), context_.config);
    return dump_json(body);
  }

  void append_event(std::string& out, size_t prompt_idx, const RequestOutput& output) override {
    usage_[prompt_idx] = output.usage;
    if (!output.prompt_logprobs.empty()) prompt_logprobs_seen_[prompt_idx] = output.prompt_logprobs;
    for (const CompletionOutput& answer : output.outputs) {
      if (!context_.has_news(answer)) continue;
      out += chunk_begin_;
      out += dump_json(make_choice(prompt_idx, answer));
      out += "],\"usage\":";
      out += context_.continuous_usage_stats
                 ? dump_json(usage_json(usage_so_far(), context_.config))
                 : "null";
      out += "}\n\n";
    }
  }

  void append_end(std::string& out, const Usage& usage) override {
    if (context_.include_usage) {
      out += chunk_begin_;
      out += "],\"usage\":" + dump_json(usage_json(counted(usage), context_.config)) + "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

  void append_error(std::string& out, const Status& status) override {
    append_sse(out, error_body(status));
    out += "data: [DONE]\n\n";
  }

 private:
  // The token that max_tokens 0 made the engine compute is nobody's.
  Usage counted(Usage usage) const {
    if (prompt_only_) usage.completion_tokens = 0;
    return usage;
  }

  Usage usage_so_far() const {
    Usage sum;
    for (const Usage& usage : usage_) {
      sum.prompt_tokens += usage.prompt_tokens;
      sum.completion_tokens += usage.completion_tokens;
    }
    return counted(sum);
  }

  JsonObject make_choice(size_t prompt_idx, const CompletionOutput& answer) {
    const size_t index =
        prompt_idx * static_cast<size_t>(context_.n) + static_cast<size_t>(answer.index);
    const Prompt& prompt = prompts_[prompt_idx];
    const bool first = !begun_[index];
    begun_[index] = true;
    std::string text = first && echo_ ? prompt.text : "";
    CompletionLogprobs& logprobs = logprobs_[index];
    if (first && echo_ && context_.logprobs) {
      logprobs.add_first_prompt_token(prompt.token_ids.at(0));
      logprobs.add(prompt_logprobs_seen_[prompt_idx]);
    }
    if (!prompt_only_) {
      text += answer.text;
      if (context_.logprobs) logprobs.add(answer.logprobs);
    }
    JsonObject choice{{"index", index},
                      {"text", text},
                      {"logprobs", context_.logprobs ? Json(logprobs.take()) : Json()},
                      {"finish_reason", context_.finish_reason(answer)},
                      {"stop_reason", context_.stop_reason(answer)}};
    if (prompt_only_ && answer.finish_reason) choice["finish_reason"] = "length";
    if (context_.return_token_ids) {
      choice["token_ids"] = prompt_only_ ? JsonArray() : to_json(answer.token_ids);
      if (first) choice["prompt_token_ids"] = to_json(prompt.token_ids);
    }
    return choice;
  }

  const AnswerContext context_;
  const std::string chunk_begin_;
  const std::vector<Prompt> prompts_;
  const bool echo_;
  const bool prompt_logprobs_;
  const bool prompt_only_;
  std::vector<Usage> usage_;                                      // so far, by prompt
  std::vector<std::vector<TokenLogprobs>> prompt_logprobs_seen_;  // by prompt
  std::vector<char> begun_;                                       // by answer
  std::vector<CompletionLogprobs> logprobs_;                      // by answer
};

Result<CompletionsRequest> parse_completions(App& app, const JsonObject& body) {
  Fields fields(body);
  OCTAVO_TRY(check_model(fields, app.config()));
  CompletionsRequest request;
  request.options = read_generation_options(fields, app.config());
  SamplingParams& sampling = request.options.request.sampling;
  request.prompt_logprobs = sampling.prompt_logprobs.has_value();
  fields.read("echo", request.echo);
  fields.read("logprobs", sampling.logprobs);
  read_max_tokens(fields, sampling);
  limit_max_tokens(app.config(), sampling);
  std::string suffix;
  fields.read("suffix", suffix);
  if (!suffix.empty()) fields.fail(unsupported("suffix is not supported"));
  bool add_special_tokens = true;
  fields.read("add_special_tokens", add_special_tokens);
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) fields.fail("prompt", "is missing");
  if (sampling.logprobs && *sampling.logprobs > app.config().max_logprobs) {
    fields.fail("logprobs", format("must be at most {}", app.config().max_logprobs));
  }
  OCTAVO_TRY(fields.finish());
  if (request.echo && sampling.max_tokens == 0) {
    request.prompt_only = true;
    sampling.max_tokens = 1;
  }
  if (request.echo && sampling.logprobs) {
    sampling.prompt_logprobs = std::max(*sampling.logprobs, sampling.prompt_logprobs.value_or(0));
  }
  OCTAVO_TRY(validate_sampling(sampling));
  OCTAVO_TRY(check_num_answers(app, request.options.request.n));
  request.prompts =
      OCTAVO_TRY(read_prompts(app, "prompt", *prompt, add_special_tokens, request.echo));
  for (Prompt& one : request.prompts) {
    const size_t length = one.token_ids.size();
    OCTAVO_TRY(cut_prompt(one.token_ids, request.options, app.engine().info().max_model_len));
    if (one.token_ids.size() == length || !request.echo) continue;
    const Tokenizer* tokenizer = OCTAVO_TRY(app.tokenizer());
    one.text = OCTAVO_TRY(tokenizer->decode(one.token_ids, true));
  }
  return request;
}

Result<GenerationJob> make_completions_job(App& app, const HttpRequest& http,
                                           const JsonObject& body) {
  CompletionsRequest request = OCTAVO_TRY(parse_completions(app, body));
  GenerationJob job;
  job.stream = request.options.stream;
  job.id = make_response_id("cmpl-", http, request.options.request_id);
  for (const Prompt& prompt : request.prompts) {
    EngineRequest engine_request = request.options.request;
    engine_request.prompt_token_ids = prompt.token_ids;
    job.requests.push_back(std::move(engine_request));
  }
  AnswerContext context(request.options, app.config(), app.engine().tokenizer(), job.id,
                        app.config().served_model_names[0]);
  job.format = std::make_unique<CompletionsFormat>(std::move(context), request);
  return job;
}

}  // namespace

void handle_completions(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer_generation(app, exchange, make_completions_job);
}

}  // namespace octavo::server
