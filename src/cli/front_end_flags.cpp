// The flags of `octavo serve` that the other commands which run an engine do not have.
#include "cli/serve_flag_store.h"
#include "cli/serve_flags.h"

namespace octavo::cli {
namespace {

using enum FlagKind;
using enum FlagSupport;

// NOLINTNEXTLINE(bugprone-macro-parentheses): a member is a name
#define OCTAVO_OPTION(member) [](Options& options) -> auto& { return options.member; }

constexpr ServeFlag kObservabilityFlags[] = {
    {"--disable-log-stats", "", kBool, kWorks, "",
     "no line with throughput and load each 10 seconds", store<OCTAVO_OPTION(disable_log_stats)>},
    {"--show-hidden-metrics-for-version", "", kValue, kWorks, "VERSION",
     "also show metrics under the names that vLLM has deprecated", store_hidden_metrics},
    {"--otlp-traces-endpoint", "", kValue, kRefused, "", "there are no traces: use /metrics",
     nullptr},
    {"--collect-detailed-traces", "", kList, kRefused, "", "there are no traces: use /metrics",
     nullptr},
    {"--kv-cache-metrics", "", kBool, kNoEffect, "", "those metrics do not exist", nullptr},
    {"--cudagraph-metrics", "", kBool, kNoEffect, "", "those metrics do not exist", nullptr},
    {"--enable-mfu-metrics", "", kBool, kNoEffect, "", "those metrics do not exist", nullptr},
    {"--enable-log-requests", "", kBool, kWorks, "", "log each request that generates",
     store<OCTAVO_OPTION(server.enable_log_requests)>},
    {"--enable-log-outputs", "", kBool, kNoEffect, "", "outputs are not logged", nullptr},
    {"--max-log-len", "", kValue, kNoEffect, "N", "prompts are not logged", nullptr},
    {"--uvicorn-log-level", "", kValue, kWorks, "LEVEL",
     "debug, info, warning, error; OCTAVO_LOG wins", store<OCTAVO_OPTION(log_level)>},
    {"--disable-uvicorn-access-log", "", kBool, kWorks, "", "no line for each HTTP request",
     store<OCTAVO_OPTION(server.disable_access_log)>},
    {"--disable-access-log-for-endpoints", "", kValue, kNoEffect, "PATHS",
     "use --disable-uvicorn-access-log", nullptr},
};

constexpr ServeFlag kFrontEndFlags[] = {
    {"--host", "", kValue, kWorks, "HOST",
     "the address to listen on; all IPv4 addresses where it is not given",
     store<OCTAVO_OPTION(http.host)>},
    {"--port", "", kValue, kWorks, "PORT", "0: a free one, which is logged",
     store<OCTAVO_OPTION(http.port)>},
    {"--uds", "", kValue, kWorks, "PATH", "listen on a Unix socket instead",
     store<OCTAVO_OPTION(http.uds)>},
    {"--api-key", "", kList, kWorks, "KEY",
     "what clients must send for /v1; several are allowed, and VLLM_API_KEY is one",
     store<OCTAVO_OPTION(server.api_keys)>},
    {"--ab-config", "", kValue, kWorks, "FILE",
     "octavo's own: groups of requests with sampling and templates of their own, by weight",
     store<OCTAVO_OPTION(ab_config)>},
    {"--allowed-origins", "", kValue, kWorks, "JSON", "CORS: who may call from a browser",
     store_json_list<OCTAVO_OPTION(server.allowed_origins)>},
    {"--allowed-methods", "", kValue, kWorks, "JSON", "CORS: methods",
     store_json_list<OCTAVO_OPTION(server.allowed_methods)>},
    {"--allowed-headers", "", kValue, kWorks, "JSON", "CORS: headers",
     store_json_list<OCTAVO_OPTION(server.allowed_headers)>},
    {"--allow-credentials", "", kBool, kWorks, "", "CORS: cookies and credentials",
     store<OCTAVO_OPTION(server.allow_credentials)>},
    {"--root-path", "", kValue, kWorks, "PATH", "what a proxy leaves before every path",
     store<OCTAVO_OPTION(server.root_path)>},
    {"--ssl-keyfile", "", kValue, kWorks, "FILE", "the key, in PEM: serve HTTPS",
     store<OCTAVO_OPTION(http.ssl_keyfile)>},
    {"--ssl-certfile", "", kValue, kWorks, "FILE",
     "the certificate and what it is signed with, in PEM", store<OCTAVO_OPTION(http.ssl_certfile)>},
    {"--ssl-ca-certs", "", kValue, kWorks, "FILE", "who signs clients' certificates",
     store<OCTAVO_OPTION(http.ssl_ca_certs)>},
    {"--ssl-cert-reqs", "", kValue, kWorks, "0|2", "2: clients must show a certificate",
     store_cert_reqs},
    {"--return-tokens-as-token-ids", "", kBool, kWorks, "", "show tokens as token:ID in logprobs",
     store<OCTAVO_OPTION(server.return_tokens_as_token_ids)>},
    {"--enable-prompt-tokens-details", "", kBool, kWorks, "",
     "say in usage how many prompt tokens were cached",
     store<OCTAVO_OPTION(server.enable_prompt_tokens_details)>},
    {"--enable-force-include-usage", "", kBool, kWorks, "", "end every stream with its usage",
     store<OCTAVO_OPTION(server.enable_force_include_usage)>},
    {"--enable-request-id-headers", "", kBool, kWorks, "", "answer with X-Request-Id",
     store<OCTAVO_OPTION(server.enable_request_id_headers)>},
    {"--enable-server-load-tracking", "", kBool, kNoEffect, "", "/load always answers", nullptr},
    {"--enable-dev-endpoints", "", kBool, kWorks, "",
     "octavo's own: /reset_prefix_cache, /pause, /resume, /is_paused, /abort_requests",
     store<OCTAVO_OPTION(server.enable_dev_endpoints)>},
    {"--enable-tokenizer-info-endpoint", "", kBool, kRefused, "", "there is no /tokenizer_info",
     nullptr},
    {"--enable-per-request-metrics", "", kBool, kRefused, "", "use /metrics", nullptr},
    {"--disable-fastapi-docs", "", kBool, kNoEffect, "", "there is /openapi.json only", nullptr},
    {"--middleware", "", kList, kRefused, "", "there are no plugins: put a proxy in front",
     nullptr},
    {"--api-server-count", "", kValue, kNoEffect, "N",
     "one process serves; --http-threads sets its threads", nullptr},
    {"--http-threads", "", kValue, kWorks, "N", "octavo's own: threads for network traffic; 1",
     store<OCTAVO_OPTION(http.num_threads)>},
    {"--max-connections", "", kValue, kWorks, "N", "octavo's own: connections at once; 4096",
     store_max_connections},
    {"--max-body-size", "", kValue, kWorks, "BYTES", "octavo's own: largest request body; 32M",
     store_body_limit},
    {"--h11-max-incomplete-event-size", "", kValue, kWorks, "BYTES", "largest request headers; 64K",
     store_header_limit},
    {"--headless", "", kBool, kRefused, "", "a server serves", nullptr},
    {"--shutdown-timeout", "", kValue, kWorks, "SECONDS",
     "after SIGTERM running requests may go on that long",
     store<OCTAVO_OPTION(shutdown_timeout_s)>},
};

constexpr ServeFlag kChatFlags[] = {
    {"--chat-template", "", kValue, kWorks, "FILE",
     "a Jinja template in place of the model's own; or its text",
     store<OCTAVO_OPTION(chat_template)>},
    {"--chat-template-content-format", "", kValue, kWorks, "auto|string|openai",
     "contents reach templates as text or as lists of parts; auto: as the template takes them",
     store_content_format},
    {"--trust-request-chat-template", "", kBool, kWorks, "", "requests may bring a chat_template",
     store<OCTAVO_OPTION(server.trust_request_chat_template)>},
    {"--default-chat-template-kwargs", "", kValue, kWorks, "JSON",
     "variables of the chat template; a request's own win",
     store<OCTAVO_OPTION(server.default_chat_template_kwargs)>},
    {"--response-role", "", kValue, kWorks, "ROLE", "the role of answers",
     store<OCTAVO_OPTION(server.response_role)>},
};

#undef OCTAVO_OPTION

}  // namespace

std::span<const ServeFlag> observability_flags() {
  return kObservabilityFlags;
}

std::span<const ServeFlag> front_end_flags() {
  return kFrontEndFlags;
}

std::span<const ServeFlag> chat_flags() {
  return kChatFlags;
}

}  // namespace octavo::cli
