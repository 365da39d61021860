// GET /openapi.json: the table of routes as an OpenAPI document.
#include "server/app.h"
#include "server/openai/error.h"
#include "server/openai/handlers.h"
#include "server/routes.h"

namespace octavo::server {
namespace {

JsonObject operation(const Route& route) {
  JsonObject object{
      {"summary", route.summary},
      {"responses", {{"200", {{"description", "OK"}}}, {"400", {{"description", "Bad request"}}}}}};
  if (route.method == "POST") {
    object["requestBody"] = {
        {"content", {{"application/json", {{"schema", {{"type", "object"}}}}}}}};
  }
  return object;
}

}  // namespace

void handle_openapi(App& app, const std::shared_ptr<Exchange>& exchange) {
  JsonObject paths;
  for (const Route& route : routes()) {
    if (route.is_development && !app.config().enable_dev_endpoints) continue;
    auto& path = paths[route.path];
    if (!path.is_object()) path = JsonObject();
    path.get_object()[route.method == "GET" ? "get" : "post"] = operation(route);
  }
  exchange->send(json_response(
      200, JsonObject{{"openapi", "3.1.0"},
                      {"info", {{"title", "octavo"}, {"version", app.config().version}}},
                      {"paths", std::move(paths)}}));
}

}  // namespace octavo::server
