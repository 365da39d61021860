// One function for each route; routes.cpp has the table.
#pragma once

#include <memory>

#include "server/http/exchange.h"

namespace octavo::server {

class App;

void handle_abort_requests(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_chat_completions(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_completions(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_detokenize(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_embeddings(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_generate(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_groups(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_health(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_invocations(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_is_paused(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_load(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_metrics(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_models(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_openapi(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_page(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_pause(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_reset_prefix_cache(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_resume(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_tokenize(App& app, const std::shared_ptr<Exchange>& exchange);
void handle_version(App& app, const std::shared_ptr<Exchange>& exchange);

}  // namespace octavo::server
