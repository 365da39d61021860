// POST /v1/chat/completions.
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

struct ChatRequest {
  GenerationOptions options;
  Prompt prompt;
  std::string role;    // of the answer
  std::string prefix;  // echoed before it
};

class ChatFormat final : public OutputFormat {
 public:
  ChatFormat(AnswerContext context, ChatRequest& request)
      : context_(std::move(context)),
        chunk_begin_(context_.chunk_begin("chat.completion.chunk")),
        role_(std::move(request.role)),
        prefix_(std::move(request.prefix)),
        prompt_token_ids_(std::move(request.prompt.token_ids)),
        wants_prompt_logprobs_(request.options.request.sampling.prompt_logprobs.has_value()),
        begun_(static_cast<size_t>(context_.n)) {}

  std::string whole(const std::vector<RequestOutput>& outputs) override {
    JsonArray choices;
    for (const CompletionOutput& answer : outputs.at(0).outputs) {
      JsonObject message{{"role", role_},
                         {"content", prefix_ + answer.text},
                         {"refusal", nullptr},
                         {"annotations", nullptr},
                         {"audio", nullptr},
                         {"function_call", nullptr},
                         {"tool_calls", JsonArray()},
                         {"reasoning", nullptr},
                         {"reasoning_content", nullptr}};
      JsonObject choice{{"index", answer.index},
                        {"message", std::move(message)},
                        {"logprobs", logprobs(answer)},
                        {"finish_reason", context_.finish_reason(answer)},
                        {"stop_reason", context_.stop_reason(answer)}};
      if (context_.return_token_ids) choice["token_ids"] = to_json(answer.token_ids);
      choices.push_back(std::move(choice));
    }
    JsonObject body = context_.head("chat.completion");
    body["service_tier"] = nullptr;
    body["choices"] = std::move(choices);
    body["usage"] = usage_json(outputs[0].usage, context_.config);
    body["prompt_logprobs"] = wants_prompt_logprobs_
                                  ? Json(context_.prompt_logprobs(outputs[0].prompt_logprobs))
                                  : Json();
    if (context_.return_token_ids) body["prompt_token_ids"] = to_json(prompt_token_ids_);
    return dump_json(body);
  }

  void append_event(std::string& out, size_t, const RequestOutput& output) override {
    for (const CompletionOutput& answer : output.outputs) {
      append_first_chunk(out, answer.index, output.usage);
      if (!context_.has_news(answer)) continue;
      JsonObject delta;
      if (!answer.text.empty() || !answer.finish_reason) delta["content"] = answer.text;
      JsonObject choice{{"index", answer.index},
                        {"delta", std::move(delta)},
                        {"logprobs", logprobs(answer)},
                        {"finish_reason", context_.finish_reason(answer)}};
      if (answer.finish_reason) choice["stop_reason"] = context_.stop_reason(answer);
      if (context_.return_token_ids) choice["token_ids"] = to_json(answer.token_ids);
      append_chunk(out, choice, output.usage);
    }
  }

  void append_end(std::string& out, const Usage& usage) override {
    if (context_.include_usage) {
      out += chunk_begin_;
      out += "],\"usage\":" + dump_json(usage_json(usage, context_.config)) + "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

  void append_error(std::string& out, const Status& status) override {
    append_sse(out, error_body(status));
    out += "data: [DONE]\n\n";
  }

 private:
  Json logprobs(const CompletionOutput& answer) const {
    return context_.logprobs ? Json(context_.chat_logprobs(answer.logprobs)) : Json();
  }

  void append_chunk(std::string& out, const JsonObject& choice, const Usage& usage) const {
    out += chunk_begin_;
    out += dump_json(choice);
    out += ']';
    if (context_.continuous_usage_stats) {
      out += ",\"usage\":" + dump_json(usage_json(usage, context_.config));
    }
    out += "}\n\n";
  }

  // The role, before anything else of an answer.
  void append_first_chunk(std::string& out, int32_t index, const Usage& usage) {
    if (begun_.at(static_cast<size_t>(index)) != 0) return;
    begun_[static_cast<size_t>(index)] = 1;
    JsonObject choice{{"index", index},
                      {"delta", {{"role", role_}, {"content", prefix_}}},
                      {"logprobs", nullptr},
                      {"finish_reason", nullptr}};
    if (context_.return_token_ids) choice["prompt_token_ids"] = to_json(prompt_token_ids_);
    Usage before = usage;
    before.completion_tokens = 0;
    append_chunk(out, choice, before);
  }

  const AnswerContext context_;
  const std::string chunk_begin_;
  const std::string role_;
  const std::string prefix_;
  const std::vector<TokenId> prompt_token_ids_;
  const bool wants_prompt_logprobs_;
  std::vector<char> begun_;  // by answer
};

void read_logprobs(Fields& fields, const ServerConfig& config, SamplingParams& sampling) {
  bool wants_logprobs = false;
  std::optional<int32_t> top;
  fields.read("logprobs", wants_logprobs);
  fields.read("top_logprobs", top);
  if (top && *top != 0 && !wants_logprobs) {
    fields.fail("top_logprobs", "needs logprobs to be true");
  }
  if (top && (*top < 0 || *top > config.max_logprobs)) {
    fields.fail("top_logprobs", format("must lie in 0..{}", config.max_logprobs));
  }
  if (wants_logprobs) sampling.logprobs = top.value_or(0);
}

void refuse_chat_fields(Fields& fields) {
  std::vector<std::string> modalities;
  fields.read("modalities", modalities);
  for (const std::string& modality : modalities) {
    if (modality != "text") fields.fail(unsupported("modalities can only be 'text'"));
  }
  bool include_reasoning = true;  // there is nothing to leave out
  fields.read("include_reasoning", include_reasoning);
}

// Of `echo`: the last message, where the answer goes on with it.
std::string echoed(const JsonObject& body, const std::string& role) {
  const Json* messages = body.if_contains("messages");
  if (messages == nullptr || !messages->is_array() || messages->get_array().empty()) return "";
  const Json& last = messages->get_array().back();
  const Json* last_role = json_find(last, "role");
  const Json* content = json_find(last, "content");
  const bool same =
      last_role != nullptr && last_role->is_string() && to_view(last_role->get_string()) == role;
  if (!same || content == nullptr || !content->is_string()) return "";
  return std::string(to_view(content->get_string()));
}

Result<ChatRequest> parse_chat(App& app, const JsonObject& body) {
  Fields fields(body);
  OCTAVO_TRY(check_model(fields, app.config()));
  ChatRequest request;
  request.options = read_generation_options(fields, app.config());
  SamplingParams& sampling = request.options.request.sampling;
  read_logprobs(fields, app.config(), sampling);
  fields.read("max_tokens", sampling.max_tokens);
  read_max_completion_tokens(fields, sampling);
  limit_max_tokens(app.config(), sampling);
  refuse_chat_fields(fields);
  bool echo = false;
  fields.read("echo", echo);
  request.role = app.config().response_role;
  if (echo) request.prefix = echoed(body, request.role);
  OCTAVO_TRY(fields.status());
  OCTAVO_TRY(validate_sampling(sampling));
  OCTAVO_TRY(check_num_answers(app, request.options.request.n));
  request.prompt = OCTAVO_TRY(read_chat_prompt(app, fields));
  OCTAVO_TRY(fields.finish());
  OCTAVO_TRY(
      cut_prompt(request.prompt.token_ids, request.options, app.engine().info().max_model_len));
  return request;
}

Result<GenerationJob> make_chat_job(App& app, const HttpRequest& http, const JsonObject& body) {
  ChatRequest request = OCTAVO_TRY(parse_chat(app, body));
  GenerationJob job;
  job.stream = request.options.stream;
  job.id = make_response_id("chatcmpl-", http, request.options.request_id);
  EngineRequest engine_request = request.options.request;
  engine_request.prompt_token_ids = request.prompt.token_ids;
  job.requests.push_back(std::move(engine_request));
  AnswerContext context(request.options, app.config(), app.engine().tokenizer(), job.id,
                        app.config().served_model_names[0]);
  job.format = std::make_unique<ChatFormat>(std::move(context), request);
  return job;
}

}  // namespace

void handle_chat_completions(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer_generation(app, exchange, make_chat_job);
}

}  // namespace octavo::server
