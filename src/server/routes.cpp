#include "server/routes.h"

#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "server/app.h"
#include "server/openai/error.h"
#include "server/openai/handlers.h"

namespace octavo::server {
namespace {

// method, path, summary, slow, development, handler
constexpr Route kRoutes[] = {
    {"POST", "/v1/completions", "Continue a prompt", true, false, handle_completions},
    {"POST", "/v1/chat/completions", "Answer a conversation", true, false, handle_chat_completions},
    {"POST", "/v1/embeddings", "The embeddings of texts", true, false, handle_embeddings},
    {"GET", "/v1/models", "The model that is served", false, false, handle_models},
    {"POST", "/tokenize", "The token ids of a text or a conversation", true, false,
     handle_tokenize},
    {"POST", "/detokenize", "The text of token ids", true, false, handle_detokenize},
    {"POST", "/generate", "Continue a prompt, in the form of vLLM's first server", true, false,
     handle_generate},
    {"POST", "/invocations", "A chat, a completion or embeddings, as SageMaker asks", true, false,
     handle_invocations},
    {"GET", "/health", "Whether the server is ready", false, false, handle_health},
    {"GET", "/ping", "The same, as SageMaker asks", false, false, handle_health},
    {"POST", "/ping", "The same, as SageMaker asks", false, false, handle_health},
    {"GET", "/load", "Requests that are being answered", false, false, handle_load},
    {"GET", "/version", "The server's version", false, false, handle_version},
    {"GET", "/metrics", "Metrics for Prometheus", false, false, handle_metrics},
    {"GET", "/ab", "What the groups of requests took of late", false, false, handle_groups},
    {"GET", "/openapi.json", "This list as an OpenAPI document", false, false, handle_openapi},
    {"GET", "/", "The chat page", false, false, handle_page},
    {"GET", "/app.js", "Its program", false, false, handle_page},
    {"GET", "/markdown.js", "Its program for Markdown", false, false, handle_page},
    {"GET", "/dashboard", "Throughput and latencies as they are", false, false, handle_page},
    {"GET", "/dashboard.js", "Its program", false, false, handle_page},
    {"GET", "/style.css", "Its style", false, false, handle_page},
    {"POST", "/reset_prefix_cache", "Forget all cached prefixes", true, true,
     handle_reset_prefix_cache},
    {"POST", "/pause", "Begin no further step", false, true, handle_pause},
    {"POST", "/resume", "Go on after a pause", false, true, handle_resume},
    {"GET", "/is_paused", "Whether the engine is paused", false, true, handle_is_paused},
    {"POST", "/abort_requests", "End requests by their ids, or all", false, true,
     handle_abort_requests},
};

constexpr std::string_view kMethods[] = {"DELETE", "GET",  "HEAD", "OPTIONS",
                                         "PATCH",  "POST", "PUT"};

struct MissingPath {
  std::string_view prefix;
  std::string_view why;
};

// What vLLM has and octavo has not: said in words, since clients would take it for a wrong address.
constexpr MissingPath kMissingPaths[] = {
    {"/v1/responses", "use /v1/chat/completions"},
    {"/v1/messages", "use /v1/chat/completions"},
    {"/v1/audio/", "models take text only"},
    {"/v1/score", "use /v1/embeddings"},
    {"/score", "use /v1/embeddings"},
    {"/v1/rerank", "use /v1/embeddings"},
    {"/v2/rerank", "use /v1/embeddings"},
    {"/rerank", "use /v1/embeddings"},
    {"/v2/embed", "use /v1/embeddings"},
    {"/pooling", "use /v1/embeddings"},
    {"/classify", "models answer and give embeddings"},
    {"/inference/v1/generate", "use /v1/completions, which takes and returns token ids"},
    {"/v1/load_lora_adapter", "adapters must be merged into the model"},
    {"/v1/unload_lora_adapter", "adapters must be merged into the model"},
    {"/tokenizer_info", "the tokenizer is in the model's files"},
    {"/server_info", "use /version and /metrics"},
    {"/sleep", "use /pause with --enable-dev-endpoints"},
    {"/wake_up", "use /resume with --enable-dev-endpoints"},
    {"/is_sleeping", "use /is_paused with --enable-dev-endpoints"},
    {"/start_profile", "use /metrics"},
    {"/stop_profile", "use /metrics"},
};

HttpResponse missing_response(std::string_view path) {
  for (const MissingPath& missing : kMissingPaths) {
    if (!path.starts_with(missing.prefix)) continue;
    return error_response(
        not_found(format("{} is not supported: {}", missing.prefix, missing.why)));
  }
  return json_response(404, JsonObject{{"detail", "Not Found"}});
}

std::string join(std::span<const std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += ", ";
    text += part;
  }
  return text;
}

bool has_wildcard(std::span<const std::string> values) {
  return std::find(values.begin(), values.end(), "*") != values.end();
}

// A method as metrics show it, which keep what they have once shown: none that a client made up.
std::string method_label(const std::string& method) {
  const bool known =
      std::find(std::begin(kMethods), std::end(kMethods), method) != std::end(kMethods);
  return known ? method : "other";
}

bool starts_with_any(std::string_view path, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return path.starts_with(prefix); });
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

bool matches_a_key(std::string_view given, std::span<const std::string> keys) {
  bool any = false;
  for (const std::string& key : keys) {
    unsigned difference = given.size() == key.size() ? 0 : 1;
    for (size_t i = 0; i < given.size(); ++i) {
      const char expected = key.empty() ? '\0' : key[i % key.size()];
      difference |= static_cast<unsigned char>(given[i] ^ expected);
    }
    any = any | (difference == 0);
  }
  return any;
}

RoutedExchange::RoutedExchange(App& app, std::shared_ptr<Exchange> exchange)
    : app_(app), exchange_(std::move(exchange)) {}

std::string RoutedExchange::path() const {
  std::string path = request().path;
  const std::string& root = app_.config().root_path;
  if (!root.empty() && path.starts_with(root) &&
      (path.size() == root.size() || path[root.size()] == '/')) {
    path.erase(0, root.size());
  }
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();  // vLLM redirects to the same
  return path;
}

// The paths that vLLM guards: probes and metrics must work without a key.
bool RoutedExchange::is_authorized(std::string_view path) const {
  const auto& keys = app_.config().api_keys;
  if (keys.empty() || request().method == "OPTIONS") return true;
  if (!starts_with_any(path, {"/v1", "/v2", "/inference"})) return true;
  const std::string* header = find_header(request().headers, "Authorization");
  constexpr std::string_view kScheme = "Bearer ";
  if (header == nullptr || header->size() < kScheme.size()) return false;
  const std::string_view value(*header);
  return equal_ignoring_case(value.substr(0, kScheme.size()), kScheme) &&
         matches_a_key(value.substr(kScheme.size()), keys);
}

const Route* RoutedExchange::find_route() {
  if (is_preflight()) {
    answer_preflight();
    return nullptr;
  }
  const std::string wanted = path();
  if (!is_authorized(wanted)) {
    send(json_response(401, JsonObject{{"error", "Unauthorized"}}));
    return nullptr;
  }
  std::string_view method = request().method;
  if (method == "HEAD") method = "GET";
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (route.path != wanted) continue;
    if (route.is_development && !app_.config().enable_dev_endpoints) continue;
    allowed += format("{}{}", allowed.empty() ? "" : ", ", route.method);
    route_path_ = wanted;
    if (route.method == method) return &route;
  }
  if (allowed.empty()) {
    send(missing_response(wanted));
    return nullptr;
  }
  HttpResponse response = json_response(405, JsonObject{{"detail", "Method Not Allowed"}});
  response.headers.emplace_back("Allow", allowed);
  send(std::move(response));
  return nullptr;
}

bool RoutedExchange::is_preflight() const {
  return request().method == "OPTIONS" && find_header(request().headers, "Origin") != nullptr &&
         find_header(request().headers, "Access-Control-Request-Method") != nullptr;
}

void RoutedExchange::answer_preflight() {
  const ServerConfig& config = app_.config();
  HttpResponse response;
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  response.headers.emplace_back("Access-Control-Allow-Methods",
                                has_wildcard(config.allowed_methods)
                                    ? "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
                                    : join(config.allowed_methods));
  const std::string* asked = find_header(request().headers, "Access-Control-Request-Headers");
  if (!has_wildcard(config.allowed_headers)) {
    response.headers.emplace_back("Access-Control-Allow-Headers", join(config.allowed_headers));
  } else if (asked != nullptr) {
    response.headers.emplace_back("Access-Control-Allow-Headers", *asked);
  }
  response.body = "OK";
  send(std::move(response));
}

void RoutedExchange::add_headers(HttpResponse& response) {
  const ServerConfig& config = app_.config();
  const std::string* origin = find_header(request().headers, "Origin");
  const bool any = has_wildcard(config.allowed_origins);
  if (origin != nullptr && any && !config.allow_credentials) {
    response.headers.emplace_back("Access-Control-Allow-Origin", "*");
  } else if (origin != nullptr &&
             (any || std::find(config.allowed_origins.begin(), config.allowed_origins.end(),
                               *origin) != config.allowed_origins.end())) {
    response.headers.emplace_back("Access-Control-Allow-Origin", *origin);
    response.headers.emplace_back("Vary", "Origin");
  }
  if (origin != nullptr && config.allow_credentials) {
    response.headers.emplace_back("Access-Control-Allow-Credentials", "true");
  }
  const std::string* request_id = find_header(request().headers, "X-Request-Id");
  if (request_id != nullptr && find_header(response.headers, "X-Request-Id") == nullptr) {
    response.headers.emplace_back("X-Request-Id", *request_id);
  }
  app_.metrics().observe_http(route_path_, method_label(request().method), response.status);
  if (!config.disable_access_log) {
    log_info("\"{} {}\" {} {}", request().method, request().path, response.status,
             reason_phrase(response.status));
  }
}

void RoutedExchange::send(HttpResponse response) {
  add_headers(response);
  exchange_->send(std::move(response));
}

void RoutedExchange::begin(HttpResponse head) {
  add_headers(head);
  exchange_->begin(std::move(head));
}

}  // namespace octavo::server
