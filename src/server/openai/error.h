// Errors as vLLM's clients know them: {"error": {"message", "type", "param", "code"}}. The one
// place where a Status becomes an HTTP status.
#pragma once

#include "base/json.h"
#include "octavo/status.h"
#include "server/http/message.h"

namespace octavo::server {

int http_status(StatusCode code);

JsonObject error_body(const Status& status);

// With Retry-After where trying again helps.
HttpResponse error_response(const Status& status);

HttpResponse json_response(int status, const JsonObject& body);

// `body`, or the error.
HttpResponse json_response(const Result<JsonObject>& body);

}  // namespace octavo::server
