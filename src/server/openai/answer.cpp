#include "server/openai/answer.h"

#include <algorithm>

#include "base/format.h"
#include "base/utf8.h"
#include "server/openai/generation.h"

namespace octavo::server {
namespace {

// JSON has no infinity.
double finite(float logprob) {
  return std::max(static_cast<double>(logprob), -9999.0);
}

int64_t num_characters(std::string_view text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); i += utf8_decode(text, i).size_bytes) ++count;
  return count;
}

}  // namespace

AnswerContext::AnswerContext(const GenerationOptions& options, const ServerConfig& server_config,
                             const Tokenizer* model_tokenizer, std::string response_id,
                             std::string model_name)
    : config(server_config),
      tokenizer(model_tokenizer),
      id(std::move(response_id)),
      model(std::move(model_name)),
      created(unix_time()),
      n(options.request.n),
      stop(options.request.sampling.stop),
      stop_token_ids(options.request.sampling.stop_token_ids),
      logprobs(options.request.sampling.logprobs),
      include_usage(options.include_usage),
      continuous_usage_stats(options.continuous_usage_stats),
      tokens_as_ids(options.return_tokens_as_token_ids),
      return_token_ids(options.return_token_ids) {}

std::string AnswerContext::token_text(TokenId id_of_token) const {
  if (tokens_as_ids || tokenizer == nullptr) return format("token:{}", id_of_token);
  return utf8_replace_invalid(tokenizer->token_bytes(id_of_token, true));
}

Json AnswerContext::finish_reason(const CompletionOutput& answer) const {
  if (!answer.finish_reason) return nullptr;
  return Json(finish_reason_name(*answer.finish_reason));
}

Json AnswerContext::stop_reason(const CompletionOutput& answer) const {
  if (answer.finish_reason != FinishReason::kStop) return nullptr;
  if (std::find(stop.begin(), stop.end(), answer.stop_reason) != stop.end()) {
    return Json(answer.stop_reason);
  }
  for (const TokenId token_id : stop_token_ids) {
    if (answer.stop_reason == format("token {}", token_id)) return token_id;
  }
  return nullptr;
}

JsonObject AnswerContext::head(const char* object) const {
  return {{"id", id},
          {"object", object},
          {"created", created},
          {"model", model},
          {"system_fingerprint", nullptr}};
}

std::string AnswerContext::chunk_begin(const char* object) const {
  std::string text = "data: " + dump_json(head(object));
  text.pop_back();  // the object goes on
  return text + ",\"choices\":[";
}

bool AnswerContext::has_news(const CompletionOutput& answer) const {
  return !answer.text.empty() || answer.finish_reason || logprobs || return_token_ids ||
         continuous_usage_stats;
}

JsonObject AnswerContext::chat_logprob(const Logprob& logprob) const {
  const std::string bytes = tokenizer == nullptr ? token_text(logprob.token_id)
                                                 : tokenizer->token_bytes(logprob.token_id, true);
  JsonArray byte_values;
  for (const char c : bytes) byte_values.push_back(static_cast<unsigned char>(c));
  return {{"token", token_text(logprob.token_id)},
          {"logprob", finite(logprob.logprob)},
          {"bytes", std::move(byte_values)}};
}

JsonObject AnswerContext::chat_logprobs(const std::vector<TokenLogprobs>& positions) const {
  JsonArray content;
  for (const TokenLogprobs& position : positions) {
    JsonObject entry = chat_logprob(position.token);
    JsonArray top;
    for (const Logprob& logprob : position.top) top.push_back(chat_logprob(logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

JsonArray AnswerContext::prompt_logprobs(const std::vector<TokenLogprobs>& positions) const {
  JsonArray array{nullptr};
  for (const TokenLogprobs& position : positions) {
    JsonObject entry;
    const auto add = [&](const Logprob& logprob) {
      entry[format("{}", logprob.token_id)] =
          JsonObject{{"logprob", finite(logprob.logprob)},
                     {"rank", logprob.rank},
                     {"decoded_token", token_text(logprob.token_id)}};
    };
    add(position.token);
    for (const Logprob& logprob : position.top) add(logprob);
    array.push_back(std::move(entry));
  }
  return array;
}

void CompletionLogprobs::add_token(const std::string& text) {
  tokens_.push_back(Json(text));
  offsets_.push_back(offset_);
  offset_ += num_characters(text);
}

void CompletionLogprobs::add_first_prompt_token(TokenId id) {
  add_token(context_.token_text(id));
  logprobs_.push_back(nullptr);
  top_.push_back(nullptr);
}

void CompletionLogprobs::add(const std::vector<TokenLogprobs>& positions) {
  for (const TokenLogprobs& position : positions) {
    add_token(context_.token_text(position.token.token_id));
    logprobs_.push_back(finite(position.token.logprob));
    JsonObject top;
    top[context_.token_text(position.token.token_id)] = finite(position.token.logprob);
    for (const Logprob& logprob : position.top) {
      top[context_.token_text(logprob.token_id)] = finite(logprob.logprob);
    }
    top_.push_back(std::move(top));
  }
}

JsonObject CompletionLogprobs::take() {
  JsonObject object{{"text_offset", std::exchange(offsets_, {})},
                    {"token_logprobs", std::exchange(logprobs_, {})},
                    {"tokens", std::exchange(tokens_, {})},
                    {"top_logprobs", std::exchange(top_, {})}};
  return object;
}

JsonArray to_json(const std::vector<TokenId>& token_ids) {
  return JsonArray(token_ids.begin(), token_ids.end());
}

}  // namespace octavo::server
