// The file of groups: every key is known, and every value checked before the first request.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "server/groups.h"
#include "server/openai/fields.h"
#include "server/openai/sampling_fields.h"

namespace octavo::server {
namespace {

constexpr size_t kMaxGroups = 32;  // each has histograms of its own
constexpr size_t kMaxNameBytes = 64;
constexpr double kMinWindowS = 10;
constexpr double kMaxWindowS = 86400;

Status check_keys(const Json& value, const std::vector<std::string_view>& known,
                  const std::string& where) {
  if (!value.is_object()) return invalid_argument(where + " must be a map");
  for (const auto& entry : value.get_object()) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string list;
    for (const std::string_view one : known) list += format("{}{}", list.empty() ? "" : ", ", one);
    return invalid_argument(format("{}: '{}' is not known: use {}", where, key, list));
  }
  return {};
}

// A header and a label carry it.
Status check_name(const std::string& name, const std::string& where) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMaxNameBytes &&
      std::all_of(name.begin(), name.end(), is_plain)) {
    return {};
  }
  return invalid_argument(
      format("{}.name must be 1 to {} of the characters a-z A-Z 0-9 - _ .", where, kMaxNameBytes));
}

// Requests will read them as their own; here only their types and ranges count.
Status check_defaults(const JsonObject& defaults, const std::string& where) {
  Fields fields(defaults, where + ".");
  int32_t priority = 0;
  std::string text;
  fields.read("priority", priority);
  for (const char* name : {"cache_salt", "chat_template", "reasoning_effort"}) {
    fields.read(name, text);
    if (fields.find(name) != nullptr && text.empty()) fields.fail(name, "must not be empty");
  }
  fields.read_object("chat_template_kwargs");
  OCTAVO_TRY(fields.status());
  ServerConfig config;
  config.default_sampling = defaults;
  const Result<SamplingParams> sampling = read_default_sampling(config);
  const Status status = sampling.ok() ? validate_sampling(*sampling) : sampling.status();
  return status.ok() ? status : invalid_argument(format("{}: {}", where, status.message()));
}

Result<Group> parse_group(const Json& json, const std::string& where) {
  OCTAVO_TRY(check_keys(json, {"name", "weight", "defaults"}, where));
  Fields fields(json.get_object(), where + ".");
  Group group;
  fields.read("name", group.name);
  OCTAVO_TRY(fields.status());
  OCTAVO_TRY(check_name(group.name, where));
  if (const Json* weight = fields.find("weight")) {
    group.weight = weight->is_number() ? weight->to_number<double>() : -1;
    if (!(group.weight >= 0) || !std::isfinite(group.weight)) {
      return invalid_argument(where + ".weight must be a number from 0 on");
    }
  }
  if (const Json* defaults = fields.find("defaults")) {
    std::vector<std::string_view> known;
    for (const DefaultField& one : default_fields()) known.push_back(one.name);
    OCTAVO_TRY(check_keys(*defaults, known, where + ".defaults"));
    for (const auto& entry : defaults->get_object()) {
      if (!entry.value().is_null()) group.defaults.insert(entry);
    }
    OCTAVO_TRY(check_defaults(group.defaults, where + ".defaults"));
  }
  return group;
}

Result<GroupsConfig> parse_file(const Json& json) {
  OCTAVO_TRY(check_keys(json, {"groups", "salt", "window_s"}, "the file"));
  Fields fields(json.get_object());
  GroupsConfig config;
  fields.read("salt", config.salt);
  OCTAVO_TRY(fields.status());
  if (const Json* window = fields.find("window_s")) {
    config.window_s = window->is_number() ? window->to_number<double>() : 0;
    if (!(config.window_s >= kMinWindowS && config.window_s <= kMaxWindowS)) {
      return invalid_argument(format("window_s must lie in {}..{}", kMinWindowS, kMaxWindowS));
    }
  }
  const Json* groups = fields.find("groups");
  if (groups == nullptr || !groups->is_array() || groups->get_array().empty() ||
      groups->get_array().size() > kMaxGroups) {
    return invalid_argument(format("groups must be a list of 1 to {} groups", kMaxGroups));
  }
  double sum = 0;
  for (const Json& entry : groups->get_array()) {
    const std::string where = format("groups[{}]", config.groups.size());
    Group group = OCTAVO_TRY(parse_group(entry, where));
    for (const Group& other : config.groups) {
      if (other.name != group.name) continue;
      return invalid_argument(format("{}.name '{}' is taken twice", where, group.name));
    }
    sum += group.weight;
    config.groups.push_back(std::move(group));
  }
  if (!(sum > 0)) return invalid_argument("groups: all weights are 0");
  return config;
}

}  // namespace

Result<GroupsConfig> parse_groups(const Json& json, const std::string& source) {
  auto config = parse_file(json);
  if (config.ok()) return config;
  return Status(config.status().code(), format("{}: {}", source, config.status().message()));
}

}  // namespace octavo::server
