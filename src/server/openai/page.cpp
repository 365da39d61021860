// GET / and /dashboard and what they load.
#include "base/format.h"
#include "server/app.h"
#include "server/openai/error.h"
#include "server/openai/handlers.h"
#include "server/static_files.h"

namespace octavo::server {
namespace {

const char* content_type(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/javascript; charset=utf-8";
}

}  // namespace

void handle_page(App&, const std::shared_ptr<Exchange>& exchange) {
  const std::string_view path = exchange->request().path;
  if (path.ends_with("/dashboard/")) {  // from there its files would be looked for in vain
    HttpResponse response;
    response.status = 308;
    response.headers = {{"Location", "../dashboard"}};
    return exchange->send(std::move(response));
  }
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.empty()) name = "index.html";
  if (name == "dashboard") name = "dashboard.html";
  for (const StaticFile& file : static_files()) {
    if (file.name != name) continue;
    HttpResponse response;
    response.headers = {
        {"Content-Type", content_type(name)},
        {"Cache-Control", "no-cache"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
         "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"}};
    response.body = file.content;
    return exchange->send(std::move(response));
  }
  exchange->send(error_response(not_found(format("there is no file '{}'", name))));
}

}  // namespace octavo::server
