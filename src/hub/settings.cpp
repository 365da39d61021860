#include "hub/settings.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"

namespace octavo::hub {
namespace {

constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kMaxTokenBytes = 4096;

// "~/x" is in the user's home.
std::string expand_home(const std::string& path) {
  return path.starts_with("~/") ? env_string("HOME") + path.substr(1) : path;
}

std::string huggingface_home() {
  const std::string home = env_string("HF_HOME");
  if (!home.empty()) return expand_home(home);
  const std::string cache = env_string("XDG_CACHE_HOME");
  return (cache.empty() ? env_string("HOME") + "/.cache" : cache) + "/huggingface";
}

// What Hugging Face's library takes for true.
bool is_true(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

struct Variable {
  std::string name;
  std::string value;
};

// The first of `names` that is set; "" where none is.
Variable first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::string value = env_string(name);
    if (!value.empty()) return {name, std::move(value)};
  }
  return {};
}

Result<std::string> read_token() {
  auto [source, token] = first_set({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  if (token.empty()) {
    const std::string path = env_string("HF_TOKEN_PATH");
    source = path.empty() ? huggingface_home() + "/token" : expand_home(path);
    std::ifstream file(source, std::ios::binary);
    token.resize(kMaxTokenBytes + 1);
    file.read(token.data(), static_cast<std::streamsize>(token.size()));
    token.resize(static_cast<size_t>(file.gcount()));
  }
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!token.empty() && is_space(token.back())) token.pop_back();
  token.erase(0, static_cast<size_t>(std::find_if_not(token.begin(), token.end(), is_space) -
                                     token.begin()));
  // It becomes a line of a request: a line break in it would begin another.
  const bool printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!printable || token.size() > kMaxTokenBytes) {
    return invalid_argument(format("{}: this is no token of the hub", source));
  }
  return token;
}

Result<std::string> read_endpoint() {
  std::string endpoint = env_string("HF_ENDPOINT");
  if (endpoint.empty()) return std::string(kDefaultEndpoint);
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.starts_with("https://") && !endpoint.starts_with("http://")) {
    return invalid_argument(
        format("HF_ENDPOINT is '{}', which must start with https:// or http://", endpoint));
  }
  return endpoint;
}

}  // namespace

Result<HubSettings> hub_settings() {
  HubSettings settings;
  settings.endpoint = OCTAVO_TRY(read_endpoint());
  settings.token = OCTAVO_TRY(read_token());
  settings.offline = is_true(first_set({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}).value);
  const std::string folder = first_set({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}).value;
  settings.cache_folder = folder.empty() ? huggingface_home() + "/hub" : expand_home(folder);
  if (!settings.cache_folder.starts_with('/') && env_string("HOME").empty() && folder.empty()) {
    return invalid_argument("neither HF_HOME nor HOME is set: where should models be kept?");
  }
  const std::string timeout = env_string("HF_HUB_DOWNLOAD_TIMEOUT");
  if (!timeout.empty()) {
    const char* const end = timeout.data() + timeout.size();
    const auto [stop, error] = std::from_chars(timeout.data(), end, settings.timeout_s);
    if (error != std::errc() || stop != end || settings.timeout_s < 1) {
      return invalid_argument(
          format("HF_HUB_DOWNLOAD_TIMEOUT is '{}', which must be a number of seconds", timeout));
    }
  }
  return settings;
}

}  // namespace octavo::hub
