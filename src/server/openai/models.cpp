// The small routes: what is served, whether it is well, and the switches for development.
#include "base/check.h"
#include "base/format.h"
#include "server/app.h"
#include "server/openai/error.h"
#include "server/openai/fields.h"
#include "server/openai/generation.h"
#include "server/openai/handlers.h"

namespace octavo::server {
namespace {

JsonObject permission(int64_t created) {
  return {{"id", "modelperm-octavo"},
          {"object", "model_permission"},
          {"created", created},
          {"allow_create_engine", false},
          {"allow_sampling", true},
          {"allow_logprobs", true},
          {"allow_search_indices", false},
          {"allow_view", true},
          {"allow_fine_tuning", false},
          {"organization", "*"},
          {"group", nullptr},
          {"is_blocking", false}};
}

Status abort_requests(App& app, const std::string& text) {
  const JsonObject body = text.empty() ? JsonObject() : OCTAVO_TRY(parse_body(text));
  Fields fields(body);
  std::vector<std::string> ids;
  fields.read("request_ids", ids);
  OCTAVO_TRY(fields.finish());
  for (const std::string& id : ids) app.abort(id);
  if (ids.empty()) app.abort_all();
  return {};
}

void answer(Exchange& exchange, const Status& status) {
  exchange.send(status.ok() ? HttpResponse{} : error_response(status));
}

}  // namespace

void handle_models(App& app, const std::shared_ptr<Exchange>& exchange) {
  static const int64_t created = unix_time();
  JsonArray models;
  for (const std::string& name : app.config().served_model_names) {
    models.push_back(JsonObject{{"id", name},
                                {"object", "model"},
                                {"created", created},
                                {"owned_by", "octavo"},
                                {"root", app.engine().info().path},
                                {"parent", nullptr},
                                {"max_model_len", app.engine().info().max_model_len},
                                {"permission", JsonArray{permission(created)}}});
  }
  exchange->send(json_response(200, JsonObject{{"object", "list"}, {"data", std::move(models)}}));
}

void handle_health(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer(*exchange, app.health());
}

// SageMaker's one path for all that a model does: the body says which.
void handle_invocations(App& app, const std::shared_ptr<Exchange>& exchange) {
  const auto body = parse_body(exchange->request().body);
  if (!body.ok()) return exchange->send(error_response(body.status()));
  if (body->contains("messages")) return handle_chat_completions(app, exchange);
  if (body->contains("prompt")) return handle_completions(app, exchange);
  if (body->contains("input")) return handle_embeddings(app, exchange);
  exchange->send(error_response(invalid_argument("messages, prompt or input is missing")));
}

void handle_load(App& app, const std::shared_ptr<Exchange>& exchange) {
  exchange->send(json_response(200, JsonObject{{"server_load", app.num_running()}}));
}

void handle_version(App& app, const std::shared_ptr<Exchange>& exchange) {
  exchange->send(json_response(200, JsonObject{{"version", app.config().version}}));
}

void handle_metrics(App& app, const std::shared_ptr<Exchange>& exchange) {
  HttpResponse response;
  response.headers.emplace_back("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  response.body = app.metrics().text(app.engine().stats(), app.engine().config());
  exchange->send(std::move(response));
}

void handle_reset_prefix_cache(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer(*exchange, app.engine().reset_prefix_cache());
}

void handle_pause(App& app, const std::shared_ptr<Exchange>& exchange) {
  app.pause();
  exchange->send(json_response(200, JsonObject{{"status", "paused"}}));
}

void handle_resume(App& app, const std::shared_ptr<Exchange>& exchange) {
  app.resume();
  exchange->send(json_response(200, JsonObject{{"status", "resumed"}}));
}

void handle_is_paused(App& app, const std::shared_ptr<Exchange>& exchange) {
  exchange->send(json_response(200, JsonObject{{"is_paused", app.is_paused()}}));
}

void handle_abort_requests(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer(*exchange, abort_requests(app, exchange->request().body));
}

}  // namespace octavo::server
