#include "server/openai/error.h"

namespace octavo::server {
namespace {

struct ErrorKind {
  StatusCode code;
  int http_status;
  const char* type;
};

constexpr ErrorKind kErrorKinds[] = {
    {StatusCode::kInvalidArgument, 400, "BadRequestError"},
    {StatusCode::kUnsupported, 400, "BadRequestError"},
    {StatusCode::kNotFound, 404, "NotFoundError"},
    {StatusCode::kCancelled, 499, "ClientClosedRequest"},
    {StatusCode::kResourceExhausted, 503, "ServiceUnavailableError"},
    {StatusCode::kUnavailable, 503, "ServiceUnavailableError"},
    {StatusCode::kDeadlineExceeded, 504, "GatewayTimeoutError"},
};

constexpr ErrorKind kInternal{StatusCode::kInternal, 500, "InternalServerError"};

const ErrorKind& kind_of(StatusCode code) {
  for (const ErrorKind& kind : kErrorKinds) {
    if (kind.code == code) return kind;
  }
  return kInternal;
}

}  // namespace

int http_status(StatusCode code) {
  return kind_of(code).http_status;
}

JsonObject error_body(const Status& status) {
  const ErrorKind& kind = kind_of(status.code());
  return {{"error",
           {{"message", status.message()},
            {"type", kind.type},
            {"param", nullptr},
            {"code", kind.http_status}}}};
}

HttpResponse json_response(int status, const JsonObject& body) {
  HttpResponse response;
  response.status = status;
  response.headers.emplace_back("Content-Type", "application/json");
  response.body = dump_json(body);
  return response;
}

HttpResponse error_response(const Status& status) {
  HttpResponse response = json_response(http_status(status.code()), error_body(status));
  if (response.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse json_response(const Result<JsonObject>& body) {
  return body.ok() ? json_response(200, *body) : error_response(body.status());
}

}  // namespace octavo::server
