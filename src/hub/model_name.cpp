#include "hub/model_name.h"

#include <algorithm>

#include "base/format.h"

namespace octavo::hub {
namespace {

constexpr size_t kMaxNameBytes = 96;  // the hub's own limit for each of org and name
constexpr size_t kMaxPathBytes = 1024;
constexpr size_t kMaxComponentBytes = 255;  // of file systems

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_repo_part(std::string_view part) {
  if (part.empty() || part.size() > kMaxNameBytes) return false;
  for (const char c : part) {
    if (!is_alnum(c) && c != '-' && c != '_' && c != '.') return false;
  }
  // Two dashes separate the parts of a name in the cache.
  const auto at_edge = [&](char c) { return part.front() == c || part.back() == c; };
  return !at_edge('-') && !at_edge('.') && part.find("--") == std::string_view::npos &&
         part.find("..") == std::string_view::npos;
}

}  // namespace

bool is_repo_name(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_repo_part(text.substr(0, slash)) &&
         is_repo_part(text.substr(slash + 1));
}

Result<ModelName> parse_model_name(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view repo = text.substr(0, colon);
  if (!is_repo_name(repo)) {
    return invalid_argument(
        format("'{}' is no name of a model on the hub: it must look like org/name", text));
  }
  if (colon == std::string_view::npos) return ModelName{std::string(repo), ""};
  const std::string_view file = text.substr(colon + 1);
  if (!is_safe_path(file)) {
    return invalid_argument(format(
        "'{}': what follows the colon must be a quantisation such as Q4_K_M, or a file", text));
  }
  return ModelName{std::string(repo), std::string(file)};
}

bool looks_like_model_name(std::string_view text) {
  const std::string_view repo = text.substr(0, text.find(':'));
  return is_repo_name(repo) && !repo.ends_with(".gguf") && !repo.ends_with(".safetensors");
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes) return false;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '\\') return false;
  }
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxComponentBytes) {
      return false;
    }
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_commit_id(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string url_escape(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = is_alnum(c) || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain || (c == '/' && keep_slashes)) {
      out += c;
    } else {
      out += format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace octavo::hub
