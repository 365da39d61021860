// RemoteClient: a server with OpenAI's API, as `chat` and `complete` ask it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "hub/http.h"
#include "octavo/status.h"

namespace octavo::cli {

class RemoteClient {
 public:
  // `url`: the server's, with or without its /v1. An empty `api_key` sends none.
  RemoteClient(const std::string& url, std::string api_key);

  // The name of the first model that is served.
  Result<std::string> first_model();

  // Posts `body` to `path` of /v1 and streams the answer: `on_text` gets each piece of its text,
  // and `is_wanted` is asked in between; when either says false the answer ends. Returns the text.
  Result<std::string> stream(const std::string& path, JsonObject body,
                             const std::function<bool(std::string_view)>& on_text,
                             const std::function<bool()>& is_wanted);

 private:
  std::string base_url_;
  std::string api_key_;
  hub::HttpClient http_;
};

}  // namespace octavo::cli
