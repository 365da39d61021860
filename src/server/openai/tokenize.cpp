// POST /tokenize and /detokenize.
#include "base/check.h"
#include "server/openai/answer.h"
#include "server/openai/error.h"
#include "server/openai/fields.h"
#include "server/openai/handlers.h"
#include "server/openai/prompts.h"

namespace octavo::server {
namespace {

Result<JsonObject> tokenize(App& app, const JsonObject& body) {
  Fields fields(body);
  OCTAVO_TRY(check_model(fields, app.config()));
  const Tokenizer* tokenizer = OCTAVO_TRY(app.tokenizer());
  bool return_token_strs = false;
  fields.read("return_token_strs", return_token_strs);
  std::vector<TokenId> ids;
  if (fields.find("messages") != nullptr) {
    ids = OCTAVO_TRY(read_chat_prompt(app, fields)).token_ids;
  } else {
    std::string prompt;
    bool add_special_tokens = true;
    if (fields.find("prompt") == nullptr) fields.fail("prompt", "or messages is missing");
    fields.read("prompt", prompt);
    fields.read("add_special_tokens", add_special_tokens);
    OCTAVO_TRY(fields.status());
    ids = OCTAVO_TRY(
        tokenizer->encode(prompt, {.add_special = add_special_tokens, .parse_special = true}));
  }
  OCTAVO_TRY(fields.finish());
  JsonObject answer{{"count", ids.size()},
                    {"max_model_len", app.engine().info().max_model_len},
                    {"tokens", to_json(ids)},
                    {"token_strs", nullptr}};
  if (return_token_strs) {
    JsonArray pieces;
    for (const TokenId id : ids) pieces.push_back(Json(tokenizer->token_piece(id)));
    answer["token_strs"] = std::move(pieces);
  }
  return answer;
}

Result<JsonObject> detokenize(App& app, const JsonObject& body) {
  Fields fields(body);
  OCTAVO_TRY(check_model(fields, app.config()));
  const Tokenizer* tokenizer = OCTAVO_TRY(app.tokenizer());
  std::vector<TokenId> ids;
  if (fields.find("tokens") == nullptr) fields.fail("tokens", "is missing");
  fields.read("tokens", ids);
  OCTAVO_TRY(fields.finish());
  const auto prompt = tokenizer->decode(ids, true);
  if (!prompt.ok()) return invalid_argument("tokens: " + prompt.status().message());
  return JsonObject{{"prompt", *prompt}};
}

void answer(App& app, Exchange& exchange,
            Result<JsonObject> (*convert)(App& app, const JsonObject& body)) {
  const auto body = parse_body(exchange.request().body);
  if (!body.ok()) return exchange.send(error_response(body.status()));
  const auto converted = convert(app, *body);
  exchange.send(converted.ok()
                    ? json_response(200, *converted)
                    : error_response(converted.status(), param_of(converted.status(), *body)));
}

}  // namespace

void handle_tokenize(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer(app, *exchange, tokenize);
}

void handle_detokenize(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer(app, *exchange, detokenize);
}

}  // namespace octavo::server
