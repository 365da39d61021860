#include "cli/config_file.h"

#include <yaml-cpp/yaml.h>

#include "base/format.h"
#include "base/json.h"

namespace octavo::cli {
namespace {

constexpr int kMaxDepth = 32;

// A plain scalar that reads as a number, a boolean or null is one in JSON too.
Json scalar_json(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() != "!") {  // not quoted
    if (text == "true" || text == "false" || text == "null") {
      return text == "null" ? Json() : Json(text == "true");
    }
    const auto number = parse_json(text, "");
    if (number.ok() && number->is_number()) return *number;
  }
  return Json(text);
}

Json to_json(const YAML::Node& node, int depth) {
  if (depth > kMaxDepth || node.IsNull()) return {};
  if (node.IsSequence()) {
    JsonArray array;
    for (const YAML::Node& entry : node) array.push_back(to_json(entry, depth + 1));
    return array;
  }
  if (!node.IsMap()) return scalar_json(node);
  JsonObject object;
  for (const auto& entry : node) {
    object[entry.first.Scalar()] = to_json(entry.second, depth + 1);
  }
  return object;
}

std::string to_value(const YAML::Node& node) {
  return node.IsScalar() ? node.Scalar() : dump_json(to_json(node, 0));
}

void append_entries(const YAML::Node& map, std::vector<ConfigEntry>& entries) {
  for (const auto& entry : map) {
    std::vector<std::string> values;
    if (entry.second.IsSequence()) {
      for (const YAML::Node& value : entry.second) values.push_back(to_value(value));
    } else if (!entry.second.IsNull()) {
      values.push_back(to_value(entry.second));
    }
    entries.push_back({entry.first.Scalar(), std::move(values)});
  }
}

}  // namespace

Result<std::vector<ConfigEntry>> read_config_file(const std::string& path) {
  try {
    YAML::Node root = YAML::LoadFile(path);
    std::vector<ConfigEntry> entries;
    if (root.IsNull()) return entries;
    if (!root.IsMap()) return invalid_argument(format("{}: must hold `flag: value` lines", path));
    const YAML::Node nested = root["model_config"];
    if (nested) {
      if (!nested.IsMap()) {
        return invalid_argument(format("{}: model_config must hold `flag: value` lines", path));
      }
      append_entries(nested, entries);
      root.remove("model_config");
    }
    append_entries(root, entries);
    return entries;
  } catch (const YAML::BadFile&) {
    return not_found(format("--config {}: cannot be read", path));
  } catch (const YAML::Exception& error) {
    return invalid_argument(format("{}: {}", path, error.what()));
  }
}

Result<Json> read_yaml_file(const std::string& path) {
  try {
    return to_json(YAML::LoadFile(path), 0);
  } catch (const YAML::BadFile&) {
    return not_found(format("{}: cannot be read", path));
  } catch (const YAML::Exception& error) {
    return invalid_argument(format("{}: {}", path, error.what()));
  }
}

}  // namespace octavo::cli
