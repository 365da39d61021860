#include "server/openai/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"

namespace octavo::server {
namespace {

// More different names than that are made up.
constexpr size_t kMaxLoggedNames = 1000;

void log_ignored(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> logged;
  const std::lock_guard lock(mutex);
  if (logged.size() >= kMaxLoggedNames || !logged.insert(name.substr(0, 100)).second) return;
  log_info("the request field '{}' is unknown and ignored", name.substr(0, 100));
}

// 1.0 is a whole number too: some languages have no other.
std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  constexpr double kMost = 9007199254740992;  // beyond it doubles skip whole numbers
  if (!(std::fabs(number) <= kMost) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

Result<JsonObject> parse_body(const std::string& body) {
  auto parsed = parse_json(body, "the request's body");
  if (!parsed.ok()) return invalid_argument(parsed.status().message());
  Json json = std::move(*parsed);
  if (!json.is_object()) return invalid_argument("the request's body must be a JSON object");
  return std::move(json.get_object());
}

const Json* Fields::find(std::string_view name) {
  known_.emplace_back(name);
  const auto* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool Fields::is_null(std::string_view name) const {
  const auto* value = object_.if_contains(name);
  return value != nullptr && value->is_null();
}

void Fields::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void Fields::fail(std::string_view name, std::string_view why) {
  fail(invalid_argument(format("{}{} {}", prefix_, name, why)));
}

void Fields::read(std::string_view name, bool& value) {
  const Json* json = find(name);
  if (json == nullptr) return;
  if (json->is_bool()) {
    value = json->get_bool();
  } else {
    fail(name, "must be true or false");
  }
}

void Fields::read(std::string_view name, int64_t& value) {
  const Json* json = find(name);
  if (json == nullptr) return;
  const auto number = whole_number(*json);
  if (!number) return fail(name, "must be a whole number of 64 bits");
  value = *number;
}

void Fields::read(std::string_view name, int32_t& value) {
  int64_t wide = value;
  read(name, wide);
  if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
    return fail(name, "is out of range");
  }
  value = static_cast<int32_t>(wide);
}

void Fields::read(std::string_view name, float& value) {
  const Json* json = find(name);
  if (json == nullptr) return;
  if (!json->is_number()) return fail(name, "must be a number");
  const double number = json->to_number<double>();
  if (std::fabs(number) > static_cast<double>(std::numeric_limits<float>::max())) {
    return fail(name, "is out of range");
  }
  value = static_cast<float>(number);
}

void Fields::read(std::string_view name, std::string& value) {
  const Json* json = find(name);
  if (json == nullptr) return;
  if (!json->is_string()) return fail(name, "must be a string");
  value = to_view(json->get_string());
}

void Fields::read(std::string_view name, std::vector<std::string>& value) {
  const Json* json = find(name);
  if (json == nullptr) return;
  if (json->is_string()) {
    value = {std::string(to_view(json->get_string()))};
    return;
  }
  if (!json->is_array()) return fail(name, "must be a string or an array of strings");
  value.clear();
  for (const Json& entry : json->get_array()) {
    if (!entry.is_string()) return fail(name, "must hold strings only");
    value.emplace_back(to_view(entry.get_string()));
  }
}

void Fields::read(std::string_view name, std::vector<TokenId>& value) {
  const Json* json = find(name);
  if (json == nullptr) return;
  if (!json->is_array()) return fail(name, "must be an array of token ids");
  value.clear();
  value.reserve(json->get_array().size());
  for (const Json& entry : json->get_array()) {
    const auto id = whole_number(entry);
    if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max()) {
      return fail(name, "must hold token ids only: whole numbers from 0 on");
    }
    value.push_back(static_cast<TokenId>(*id));
  }
}

const JsonObject* Fields::read_object(std::string_view name) {
  const Json* json = find(name);
  if (json == nullptr) return nullptr;
  if (json->is_object()) return &json->get_object();
  fail(name, "must be an object");
  return nullptr;
}

Status Fields::finish() const {
  if (!status_.ok()) return status_;
  for (const auto& entry : object_) {
    const std::string_view name(entry.key().data(), entry.key().size());
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      log_ignored(prefix_ + std::string(name));
    }
  }
  return {};
}

}  // namespace octavo::server
