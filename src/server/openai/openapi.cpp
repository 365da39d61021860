// GET /openapi.json: the table of routes as an OpenAPI document: what requests look like, and every
// status that they are answered with.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "server/app.h"
#include "server/openai/error.h"
#include "server/openai/handlers.h"
#include "server/routes.h"

namespace octavo::server {
namespace {

// The fields that a request must have, and the usual ones beside them; docs/api-server.md has all.
struct RequestSchema {
  std::string_view path;
  const char* schema;
};

constexpr RequestSchema kRequestSchemas[] = {
    {"/v1/completions", R"({"type": "object", "required": ["prompt"], "properties": {
        "model": {"type": "string"},
        "prompt": {"anyOf": [{"type": "string", "minLength": 1},
                             {"type": "array", "minItems": 1, "items": {"type": "integer"}},
                             {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
        "max_tokens": {"type": "integer", "minimum": 1},
        "temperature": {"type": "number", "minimum": 0},
        "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "n": {"type": "integer", "minimum": 1},
        "stop": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "stream": {"type": "boolean"}, "echo": {"type": "boolean"},
        "logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
        "seed": {"type": "integer"}}})"},
    {"/v1/chat/completions", R"({"type": "object", "required": ["messages"], "properties": {
        "model": {"type": "string"},
        "messages": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["role", "content"], "properties": {
                "role": {"type": "string"}, "content": {"type": "string"}}}},
        "max_completion_tokens": {"type": "integer", "minimum": 1},
        "temperature": {"type": "number", "minimum": 0},
        "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "n": {"type": "integer", "minimum": 1},
        "stop": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "stream": {"type": "boolean"}, "logprobs": {"type": "boolean"},
        "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
        "seed": {"type": "integer"}}})"},
    {"/v1/embeddings", R"({"type": "object", "required": ["input"], "properties": {
        "model": {"type": "string"},
        "input": {"anyOf": [{"type": "string", "minLength": 1},
                            {"type": "array", "minItems": 1, "items": {"type": "integer"}},
                            {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
        "encoding_format": {"enum": ["float", "base64"]},
        "dimensions": {"type": "integer", "minimum": 1}}})"},
    {"/tokenize", R"({"type": "object", "properties": {
        "prompt": {"type": "string"}, "messages": {"type": "array", "items": {"type": "object"}},
        "add_special_tokens": {"type": "boolean"}, "return_token_strs": {"type": "boolean"}}})"},
    {"/detokenize", R"({"type": "object", "required": ["tokens"], "properties": {
        "tokens": {"type": "array", "items": {"type": "integer"}}}})"},
    {"/generate", R"({"type": "object", "required": ["prompt"], "properties": {
        "prompt": {"type": "string", "minLength": 1},
        "max_tokens": {"type": "integer", "minimum": 1},
        "stream": {"type": "boolean"}}})"},
    {"/invocations", R"({"type": "object", "properties": {
        "messages": {"type": "array", "items": {"type": "object"}},
        "prompt": {"type": "string"}, "input": {"type": "string"}}})"},
    {"/abort_requests", R"({"type": "object", "properties": {
        "request_ids": {"type": "array", "items": {"type": "string"}}}})"},
};

// What any request may be answered with, those with a body, and those that need a key.
constexpr int kStatuses[] = {200, 400, 405, 413, 431, 500, 503};
constexpr int kBodyStatuses[] = {404, 499, 504};
constexpr int kKeyStatus = 401;

JsonObject responses(const Route& route, bool has_body) {
  JsonObject object;
  const auto add = [&](int status) {
    object[format("{}", status)] = JsonObject{{"description", reason_phrase(status)}};
  };
  std::for_each(std::begin(kStatuses), std::end(kStatuses), add);
  if (has_body) std::for_each(std::begin(kBodyStatuses), std::end(kBodyStatuses), add);
  if (route.path.starts_with("/v1/")) add(kKeyStatus);
  return object;
}

JsonObject operation(const Route& route) {
  const auto schema = std::find_if(std::begin(kRequestSchemas), std::end(kRequestSchemas),
                                   [&](const auto& one) { return one.path == route.path; });
  const bool has_body = schema != std::end(kRequestSchemas);
  JsonObject object{{"summary", route.summary}, {"responses", responses(route, has_body)}};
  if (!has_body) return object;
  Json parsed = parse_json(schema->schema, "schema").value();
  object["requestBody"] = {{"required", schema->path != "/abort_requests"},
                           {"content", {{"application/json", {{"schema", std::move(parsed)}}}}}};
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
