#include "server/openai/error.h"

#include <string_view>

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

std::string param_of(const Status& status, const JsonObject& body) {
  constexpr std::string_view kNameCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  if (status.code() == StatusCode::kNotFound && body.contains("model")) return "model";
  const std::string_view message = status.message();
  const size_t name_end = message.find_first_not_of(kNameCharacters);
  if (name_end == 0 || name_end == std::string_view::npos) return "";
  const bool is_missing = message.substr(name_end).starts_with(" is missing");
  if (!is_missing && !body.contains(message.substr(0, name_end))) return "";
  return std::string(message.substr(0, message.find_first_of(" :")));  // messages[0].content
}

JsonObject error_body(const Status& status, const std::string& param) {
  const ErrorKind& kind = kind_of(status.code());
  return {{"error",
           {{"message", status.message()},
            {"type", kind.type},
            {"param", param.empty() ? Json() : Json(param)},
            {"code", kind.http_status}}}};
}

HttpResponse json_response(int status, const JsonObject& body) {
  HttpResponse response;
  response.status = status;
  response.headers.emplace_back("Content-Type", "application/json");
  response.body = dump_json(body);
  return response;
}

HttpResponse error_response(const Status& status, const std::string& param) {
  HttpResponse response = json_response(http_status(status.code()), error_body(status, param));
  if (response.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace octavo::server
