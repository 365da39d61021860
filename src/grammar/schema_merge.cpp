#include "grammar/schema_merge.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"

namespace octavo::grammar {
namespace {

constexpr int kMaxSchemaDepth = 16;
constexpr int kMaxMerges = 1000;

// Pieces of schemas that parts of allOf copy, some 20 MB.
constexpr size_t kMaxMerged = 200'000;

// Of all that oneOf asks, some tenths of a second.
constexpr size_t kMaxComparisons = 10'000'000;

// As much of a text as counts as one piece, or one comparison.
constexpr size_t kPieceBytes = 32;

constexpr std::string_view kAnnotations[] = {
    "$schema", "$id",        "$comment", "$defs",    "definitions", "title",        "description",
    "default", "deprecated", "examples", "readOnly", "writeOnly",   "discriminator"};

constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                       "integer", "boolean", "null"};

// How much a copy takes.
size_t num_pieces(const Json& value) {
  size_t count = 1;
  if (value.is_string()) count += value.get_string().size() / kPieceBytes;
  if (value.is_array()) {
    for (const Json& item : value.get_array()) count += num_pieces(item);
  } else if (value.is_object()) {
    for (const auto& entry : value.get_object()) {
      count += num_pieces(entry.value()) + entry.key().size() / kPieceBytes;
    }
  }
  return count;
}

// A part of a JSON pointer, without its escapes.
std::string unescape(std::string_view part) {
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escaped = part[i] == '~' && i + 1 < part.size();
    if (escaped) ++i;
    text += escaped ? (part[i] == '0' ? '~' : '/') : part[i];
  }
  return text;
}

const Json* child(const Json& parent, const std::string& name) {
  if (parent.is_object()) return parent.get_object().if_contains(name);
  if (!parent.is_array()) return nullptr;
  size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole ? parent.get_array().if_contains(index) : nullptr;
}

// The values that enum or const leave; empty where there is neither.
std::vector<const Json*> listed_values(const JsonObject& schema) {
  std::vector<const Json*> values;
  if (const Json* only = schema.if_contains("const")) values.push_back(only);
  const Json* list = schema.if_contains("enum");
  if (list == nullptr || !list->is_array()) return values;
  for (const Json& value : list->get_array()) values.push_back(&value);
  return values;
}

// Whether a value of this type can match; all types where the schema, which lists `values`, does
// not say.
bool allows_type(const JsonObject& schema, const std::vector<const Json*>& values,
                 std::string_view type) {
  const auto fits = [&](const Json* value) { return has_type(*value, type); };
  if (!values.empty()) return std::any_of(values.begin(), values.end(), fits);
  const auto types = schema_types(schema, "");
  if (!types.ok() || types->empty()) return true;
  return std::any_of(types->begin(), types->end(), [&](const std::string& own) {
    return own == type || (own == "number" && type == "integer") ||
           (own == "integer" && type == "number");
  });
}

const JsonArray& required_names(const JsonObject& schema) {
  static const JsonArray none;
  const Json* required = schema.if_contains("required");
  return required == nullptr || !required->is_array() ? none : required->get_array();
}

bool holds_string(const JsonArray& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(), [&](const Json& own) {
    return own.is_string() && to_view(own.get_string()) == name;
  });
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  const auto* const end = std::end(kAnnotations);
  return std::find(std::begin(kAnnotations), end, keyword) != end;
}

Status schema_error(std::string_view path, std::string_view what) {
  return invalid_argument(format("{}: {}", printable(path), printable(what)));
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_bool();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (value.is_double()) return std::trunc(value.get_double()) == value.get_double();
  return value.is_number();
}

Result<std::vector<std::string>> schema_types(const JsonObject& schema, std::string_view path) {
  std::vector<std::string> types;
  const Json* type = schema.if_contains("type");
  if (type == nullptr) return types;
  const auto add = [&](const Json& name) -> Status {
    const std::string text = name.is_string() ? std::string(to_view(name.get_string())) : "";
    if (std::find(std::begin(kTypes), std::end(kTypes), text) == std::end(kTypes)) {
      return schema_error(path, "type is not one that JSON has");
    }
    if (std::find(types.begin(), types.end(), text) == types.end()) types.push_back(text);
    return {};
  };
  if (!type->is_array()) {
    OCTAVO_TRY(add(*type));
    return types;
  }
  if (type->get_array().empty()) return schema_error(path, "type is empty: no value is allowed");
  for (const Json& name : type->get_array()) OCTAVO_TRY(add(name));
  return types;
}

Status SchemaDocument::check_id(const JsonObject& schema, std::string_view path) const {
  const Json* const id = schema.if_contains("$id");
  const bool is_root = root_.is_object() && &root_.get_object() == &schema;
  // Within properties it is a property's name.
  if (id == nullptr || !id->is_string() || is_root) return {};
  return schema_error(path, "$id is supported at the root only");
}

Result<const Json*> SchemaDocument::find(const Json& reference, std::string_view path) const {
  if (!reference.is_string()) return schema_error(path, "$ref must be a string");
  const std::string text(to_view(reference.get_string()));
  const Json* at = &root_;
  if (text.empty() || text[0] != '#' || text.find('%') != std::string::npos) {
    return schema_error(path, format("$ref '{}' is not supported: it must begin with #/", text));
  }
  for (size_t begin = 1; begin < text.size() && at != nullptr;) {
    if (text[begin] != '/') {
      return schema_error(path, format("$ref '{}' is not supported: it must begin with #/", text));
    }
    const size_t end = std::min(text.find('/', begin + 1), text.size());
    if (at->is_object()) OCTAVO_TRY(check_id(at->get_object(), path));
    at = child(*at, unescape(std::string_view(text).substr(begin + 1, end - begin - 1)));
    begin = end;
  }
  if (at == nullptr) return schema_error(path, format("$ref '{}' names nothing", text));
  return at;
}

Result<JsonObject> SchemaDocument::merge_all_of(const JsonObject& schema, const std::string& path) {
  JsonObject all;
  splits_items_ = false;
  OCTAVO_TRY(merge_into(all, schema, path, 0));
  if (splits_items_ && all.contains("items") && all.contains("prefixItems")) {
    return schema_error(path,
                        "items and prefixItems in different parts of allOf are not supported");
  }
  return all;
}

Status SchemaDocument::merge_into(JsonObject& all, const JsonObject& part, const std::string& path,
                                  int depth) {
  if (depth > kMaxSchemaDepth || ++num_merges_ > kMaxMerges) {
    return schema_error(path, "allOf is nested too deeply");
  }
  OCTAVO_TRY(check_id(part, path));
  splits_items_ = splits_items_ || part.contains("items") != part.contains("prefixItems");
  for (const auto& entry : part) {
    const std::string_view key(entry.key().data(), entry.key().size());
    const Json& value = entry.value();
    if (is_annotation(key)) continue;
    if (key == "allOf") {
      if (!value.is_array()) return schema_error(path, "allOf must be an array");
      for (const Json& inner : value.get_array()) {
        if (!inner.is_object()) return schema_error(path, "allOf must hold objects");
        OCTAVO_TRY(merge_into(all, inner.get_object(), path + "/allOf", depth + 1));
      }
    } else if (key == "$ref") {
      const Json* target = OCTAVO_TRY(find(value, path));
      if (!target->is_object()) return schema_error(path, "allOf must hold objects");
      OCTAVO_TRY(merge_into(all, target->get_object(), path, depth + 1));
    } else if (key == "additionalProperties" && !(value.is_bool() && value.get_bool())) {
      return schema_error(path, "additionalProperties within allOf is not supported");
    } else if (num_merged_ += num_pieces(value); num_merged_ > kMaxMerged) {
      return schema_error(path, "the parts of allOf are too large");
    } else if (key == "properties") {
      OCTAVO_TRY(merge_properties(all, value, path));
    } else if (key == "required" && !value.is_array()) {
      return schema_error(path, "required must be an array");
    } else if (key == "required" && all.contains(key)) {
      auto& own = all[key].as_array();
      own.insert(own.end(), value.get_array().begin(), value.get_array().end());
    } else if (const Json* same = all.if_contains(key); same == nullptr) {
      all[key] = value;
    } else if (*same != value) {
      return schema_error(path, format("allOf has more than one {}, which is not supported", key));
    }
  }
  return {};
}

Status SchemaDocument::merge_properties(JsonObject& all, const Json& properties,
                                        const std::string& path) {
  if (!properties.is_object()) return schema_error(path, "properties must be an object");
  Json& merged = all["properties"];
  if (!merged.is_object()) merged = JsonObject();
  JsonObject& own = merged.get_object();
  for (const auto& property : properties.get_object()) {
    Json* const same = own.if_contains(property.key());
    if (same == nullptr) {
      own[property.key()] = property.value();
    } else if (*same != property.value()) {
      JsonArray parts;
      parts.push_back(std::move(*same));
      parts.push_back(property.value());
      *same = JsonObject({{"allOf", std::move(parts)}});
    }
  }
  return {};
}

bool SchemaDocument::spend(size_t comparisons) {
  num_comparisons_ += comparisons;
  return num_comparisons_ <= kMaxComparisons;
}

const Json& SchemaDocument::resolve(const Json& schema) {
  const Json* at = &schema;
  for (int i = 0; i < kMaxSchemaDepth; ++i) {
    const Json* reference = json_find(*at, "$ref");
    if (reference == nullptr || !spend(num_pieces(*reference))) break;
    const auto target = find(*reference, "");
    if (!target.ok()) break;
    at = *target;
  }
  return *at;
}

// 1 and 1.0 are one number. Values that are too large to be compared count as the same.
bool SchemaDocument::same_value(const Json& a, const Json& b) {
  if (!spend(1)) return true;
  if (a.is_number() && b.is_number()) return a.to_number<double>() == b.to_number<double>();
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    return std::equal(a.get_array().begin(), a.get_array().end(), b.get_array().begin(),
                      b.get_array().end(),
                      [&](const Json& x, const Json& y) { return same_value(x, y); });
  }
  if (a.is_object()) {
    const JsonObject& own = a.get_object();
    const JsonObject& other = b.get_object();
    return own.size() == other.size() &&
           std::all_of(own.begin(), own.end(), [&](const auto& entry) {
             const Json* same = other.if_contains(entry.key());
             return same != nullptr && same_value(entry.value(), *same);
           });
  }
  return !spend(a.is_string() ? a.get_string().size() / kPieceBytes : 0) || a == b;
}

bool SchemaDocument::disjoint(const Json& first, const Json& second, int depth) {
  const Json& resolved_a = resolve(first);
  const Json& resolved_b = resolve(second);
  if (depth > kMaxSchemaDepth || !resolved_a.is_object() || !resolved_b.is_object()) return false;
  const JsonObject& a = resolved_a.get_object();
  const JsonObject& b = resolved_b.get_object();
  const auto values_a = listed_values(a);
  const auto values_b = listed_values(b);
  if (!spend(1 + values_a.size() + values_b.size())) return false;
  const auto shared = [&](std::string_view type) {
    return allows_type(a, values_a, type) && allows_type(b, values_b, type);
  };
  if (std::none_of(std::begin(kTypes), std::end(kTypes), shared)) return true;
  if (!values_a.empty() && !values_b.empty()) {
    return std::none_of(values_a.begin(), values_a.end(), [&](const Json* value) {
      return std::any_of(values_b.begin(), values_b.end(),
                         [&](const Json* other) { return same_value(*value, *other); });
    });
  }
  const auto only_objects = [](const JsonObject& schema) {
    const auto types = schema_types(schema, "");
    return types.ok() && types->size() == 1 && types->front() == "object";
  };
  const Json* properties_a = a.if_contains("properties");
  const Json* properties_b = b.if_contains("properties");
  if (!only_objects(a) || !only_objects(b) || properties_a == nullptr || properties_b == nullptr ||
      !properties_a->is_object()) {
    return false;
  }
  const auto& entries = properties_a->get_object();
  const JsonArray& required_a = required_names(a);
  const JsonArray& required_b = required_names(b);
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    const std::string_view name(entry.key().data(), entry.key().size());
    const Json* other = json_find(*properties_b, name);
    return spend(1) && other != nullptr && spend(required_a.size() + required_b.size()) &&
           holds_string(required_a, name) && holds_string(required_b, name) &&
           disjoint(entry.value(), *other, depth + 1);
  });
}

}  // namespace octavo::grammar
