// Errors as vLLM's clients know them: {"error": {"message", "type", "param", "code"}}. The one
// place where a Status becomes an HTTP status.
#pragma once

#include <string>

#include "base/json.h"
#include "octavo/status.h"
#include "server/http/message.h"

namespace octavo::server {

int http_status(StatusCode code);

// The field of `body` that the error is about, "" where it is about none: messages begin with it.
std::string param_of(const Status& status, const JsonObject& body);

JsonObject error_body(const Status& status, const std::string& param = "");

// With Retry-After where trying again helps.
HttpResponse error_response(const Status& status, const std::string& param = "");

HttpResponse json_response(int status, const JsonObject& body);

}  // namespace octavo::server
