#include "grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "grammar/json_text.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_scalars.h"

namespace octavo::grammar {
namespace {

// Of schemas within each other, which parts of allOf may make deeper than the text is.
constexpr int kMaxValueDepth = 200;

// Of the names that others are told from; each byte takes some states.
constexpr size_t kMaxOtherNamesBytes = 100'000;

// Of what a place in errors shows of a name.
constexpr size_t kMaxShownBytes = 64;
constexpr size_t kMaxRefBytes = 256;

constexpr std::string_view kKeywords[] = {"$ref",
                                          "allOf",
                                          "anyOf",
                                          "oneOf",
                                          "type",
                                          "enum",
                                          "const",
                                          "properties",
                                          "required",
                                          "items",
                                          "minItems",
                                          "additionalProperties",
                                          "maxItems",
                                          "minLength",
                                          "maxLength",
                                          "pattern",
                                          "format",
                                          "prefixItems",
                                          "minimum",
                                          "maximum",
                                          "exclusiveMinimum",
                                          "exclusiveMaximum"};

bool is_keyword(std::string_view name) {
  return std::find(std::begin(kKeywords), std::end(kKeywords), name) != std::end(kKeywords);
}

std::string child_path(const std::string& path, std::string_view name) {
  std::string result = path + "/";
  for (const char c : name.substr(0, kMaxShownBytes)) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

// No number within it was too large for a double.
bool is_finite(const Json& value) {
  if (value.is_double()) return std::isfinite(value.get_double());
  if (value.is_array()) {
    return std::all_of(value.get_array().begin(), value.get_array().end(), is_finite);
  }
  if (!value.is_object()) return true;
  const JsonObject& object = value.get_object();
  return std::all_of(object.begin(), object.end(),
                     [](const auto& entry) { return is_finite(entry.value()); });
}

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, Builder& builder)
      : builder_(builder), text_(builder), document_(root) {}

  Result<RuleId> compile(const Json& root) {
    const RuleId rule = builder_.add_rule("#");
    refs_[&root] = rule;
    open_.push_back({&root, "#", rule});
    for (size_t i = 0; i < open_.size(); ++i) {
      const Open open = open_[i];
      builder_.define(open.rule, OCTAVO_TRY(value(*open.schema, open.path)));
    }
    return rule;
  }

 private:
  // A schema that something refers to, not compiled yet.
  struct Open {
    const Json* schema;
    std::string path;
    RuleId rule;
  };

  Result<ExprId> value(const Json& schema, const std::string& path);
  Result<ExprId> combined(const JsonObject& schema, const std::string& path);
  Result<ExprId> all_of(const JsonObject& schema, const std::string& path);
  Status check_keywords(const JsonObject& schema, const std::string& path) const;
  // Nothing that limits values beside `keyword`, and `also`.
  Status check_alone(const JsonObject& schema, const std::string& path, std::string_view keyword,
                     std::string_view also = "") const;
  Result<ExprId> reference(const Json& target, const std::string& path);
  Result<ExprId> any_of(const JsonObject& schema, const std::string& path, const char* keyword);
  Result<ExprId> listed(const JsonObject& schema, const std::string& path);
  Result<ExprId> typed(const JsonObject& schema, const std::string& path, const std::string& type);
  Result<ExprId> array(const JsonObject& schema, const std::string& path);
  Result<ExprId> tuple(const JsonArray& prefix, std::optional<ExprId> item, uint32_t min,
                       uint32_t max, const std::string& path);
  Result<ExprId> object(const JsonObject& schema, const std::string& path);
  struct Member {
    std::string name;
    ExprId value;
    bool required;
  };
  // `others`: the values of names that are in `required` alone.
  Result<std::vector<Member>> members(const JsonObject& schema, std::optional<ExprId> others,
                                      const std::string& path);
  Result<ExprId> other_key(const std::vector<Member>& members, const std::string& path);
  ExprId members_in_order(const std::vector<Member>& members, std::optional<ExprId> additional);

  Builder& builder_;
  JsonText text_;
  SchemaDocument document_;
  std::map<const Json*, RuleId> refs_;
  std::vector<Open> open_;
  int depth_ = 0;  // of value()
};

Status SchemaCompiler::check_keywords(const JsonObject& schema, const std::string& path) const {
  for (const auto& entry : schema) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (is_annotation(key) || is_keyword(key)) continue;
    const bool without_effect =
        (key == "uniqueItems" && entry.value().is_bool() && !entry.value().get_bool());
    if (without_effect) continue;
    return schema_error(path, format("the keyword {} is not supported", key));
  }
  return {};
}

Status SchemaCompiler::check_alone(const JsonObject& schema, const std::string& path,
                                   std::string_view keyword, std::string_view also) const {
  for (const auto& entry : schema) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (key == keyword || key == also || is_annotation(key)) continue;
    return schema_error(path, format("{} beside {} is not supported", key, keyword));
  }
  return {};
}

Result<ExprId> SchemaCompiler::value(const Json& schema, const std::string& path) {
  if (builder_.full()) return schema_error(path, "the schema is too large");
  if (depth_ >= kMaxValueDepth) return schema_error(path, "the schema is nested too deeply");
  if (schema.is_bool() && schema.get_bool()) return text_.any_value();
  if (schema.is_bool()) return schema_error(path, "false allows no value");
  if (!schema.is_object()) return schema_error(path, "a schema must be an object or a boolean");
  const JsonObject& fields = schema.get_object();
  OCTAVO_TRY(check_keywords(fields, path));
  OCTAVO_TRY(document_.check_id(fields, path));
  ++depth_;
  auto expr = combined(fields, path);
  --depth_;
  return expr;
}

Result<ExprId> SchemaCompiler::combined(const JsonObject& fields, const std::string& path) {
  if (fields.contains("allOf")) return all_of(fields, path);
  if (const Json* ref = fields.if_contains("$ref")) {
    OCTAVO_TRY(check_alone(fields, path, "$ref"));
    const Json* const target = OCTAVO_TRY(document_.find(*ref, path));
    return reference(*target, std::string(to_view(ref->get_string()).substr(0, kMaxRefBytes)));
  }
  if (fields.contains("anyOf")) return any_of(fields, path, "anyOf");
  if (fields.contains("oneOf")) return any_of(fields, path, "oneOf");
  if (fields.contains("enum") || fields.contains("const")) return listed(fields, path);
  std::vector<std::string> types = OCTAVO_TRY(schema_types(fields, path));
  const auto implies = [&](std::initializer_list<std::string_view> keywords, const char* type) {
    const bool any = std::any_of(keywords.begin(), keywords.end(), [&](std::string_view keyword) {
      return fields.contains(keyword);
    });
    if (any) types.emplace_back(type);
  };
  if (types.empty()) {  // values of other types would match as well: they are not generated
    implies({"properties", "required", "additionalProperties"}, "object");
    implies({"items", "prefixItems", "minItems", "maxItems"}, "array");
    implies({"minLength", "maxLength", "pattern", "format"}, "string");
    implies({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}, "number");
    if (types.empty()) return text_.any_value();
  }
  std::vector<ExprId> ways;
  for (const std::string& type : types) ways.push_back(OCTAVO_TRY(typed(fields, path, type)));
  return builder_.alternatives(std::move(ways));
}

// One part alone is that part, so that it may be recursive: a reference that is described.
Result<ExprId> SchemaCompiler::all_of(const JsonObject& schema, const std::string& path) {
  const Json& parts = schema.at("allOf");
  if (parts.is_array() && parts.get_array().size() == 1 &&
      check_alone(schema, path, "allOf").ok()) {
    return value(parts.get_array()[0], path + "/allOf/0");
  }
  const Json merged = OCTAVO_TRY(document_.merge_all_of(schema, path));
  return value(merged, path);
}

Result<ExprId> SchemaCompiler::reference(const Json& target, const std::string& path) {
  const auto [found, is_new] = refs_.try_emplace(&target);
  if (is_new) {
    found->second = builder_.add_rule(path);
    open_.push_back({&target, path, found->second});
  }
  return builder_.call(found->second);
}

// For one value no more than one part of oneOf may match: that must be plain to see.
Result<ExprId> SchemaCompiler::any_of(const JsonObject& schema, const std::string& path,
                                      const char* keyword) {
  OCTAVO_TRY(check_alone(schema, path, keyword));
  const Json& parts = schema.at(keyword);
  if (!parts.is_array() || parts.get_array().empty()) {
    return schema_error(path, format("{} must be an array that is not empty", keyword));
  }
  std::vector<ExprId> ways;
  const JsonArray& list = parts.get_array();
  for (size_t i = 0; i < list.size(); ++i) {
    ways.push_back(OCTAVO_TRY(value(list[i], format("{}/{}/{}", path, keyword, i))));
    for (size_t j = 0; j < i && std::string_view(keyword) == "oneOf"; ++j) {
      if (document_.disjoint(list[i], list[j])) continue;
      return schema_error(path, format("oneOf: a value might match both {} and {}, which is not "
                                       "supported; use anyOf",
                                       j, i));
    }
  }
  return builder_.alternatives(std::move(ways));
}

Result<ExprId> SchemaCompiler::listed(const JsonObject& schema, const std::string& path) {
  const char* keyword = schema.contains("enum") ? "enum" : "const";
  OCTAVO_TRY(check_alone(schema, path, keyword, "type"));
  const std::vector<std::string> types = OCTAVO_TRY(schema_types(schema, path));
  const Json& list = schema.at(keyword);
  if (std::string_view(keyword) == "enum" && !list.is_array()) {
    return schema_error(path, "enum must be an array");
  }
  std::vector<std::string> texts;
  const auto add = [&](const Json& one) {
    const auto fits = [&](const std::string& type) { return has_type(one, type); };
    if (!types.empty() && std::none_of(types.begin(), types.end(), fits)) return;
    texts.push_back(dump_json(one));
  };
  if (std::string_view(keyword) == "const") {
    add(list);
  } else {
    for (const Json& one : list.get_array()) add(one);
  }
  if (texts.empty()) return schema_error(path, format("{} allows no value", keyword));
  if (!is_finite(list)) return schema_error(path, format("{} has a number too large", keyword));
  return builder_.literals(std::move(texts));
}

Result<ExprId> SchemaCompiler::typed(const JsonObject& schema, const std::string& path,
                                     const std::string& type) {
  if (type == "object") return object(schema, path);
  if (type == "array") return array(schema, path);
  if (type == "string") return compile_string(schema, path, builder_, text_);
  if (type == "integer" || type == "number") {
    return compile_number(schema, path, type == "integer", text_);
  }
  if (type == "boolean") return builder_.literals({"true", "false"});
  return builder_.literal("null");
}

// --- arrays and objects -------------------------------------------------------------------------

Result<ExprId> SchemaCompiler::array(const JsonObject& schema, const std::string& path) {
  const auto [min, max] = OCTAVO_TRY(read_counts(schema, "minItems", "maxItems", path));
  const Json* prefix = schema.if_contains("prefixItems");
  const Json* items = schema.if_contains("items");
  if (prefix == nullptr && items != nullptr && items->is_array()) {  // of drafts before 2020-12
    prefix = std::exchange(items, nullptr);
  }
  if (prefix != nullptr && !prefix->is_array()) {
    return schema_error(path, "prefixItems must be an array");
  }
  const size_t num_prefix = prefix == nullptr ? 0 : prefix->get_array().size();
  std::optional<ExprId> item;
  if (items != nullptr && items->is_array()) {
    return schema_error(path, "items must be a schema where there is prefixItems");
  }
  if (items != nullptr && !(items->is_bool() && !items->get_bool())) {
    const std::string item_path = path + "/items";
    item = builder_.add_and_call(item_path, OCTAVO_TRY(value(*items, item_path)));
  } else if (items == nullptr && (num_prefix == 0 || min > num_prefix)) {
    item = text_.any_value();
  }
  if (!item && min > num_prefix) return schema_error(path, "minItems is more than items allow");
  if (num_prefix == 0) return text_.array(item ? *item : builder_.empty(), min, item ? max : 0);
  return tuple(prefix->get_array(), item, min, max, path);
}

// From the end on: what may follow the i-th item.
Result<ExprId> SchemaCompiler::tuple(const JsonArray& prefix, std::optional<ExprId> item,
                                     uint32_t min, uint32_t max, const std::string& path) {
  Builder& b = builder_;
  const auto length = static_cast<uint32_t>(prefix.size());
  ExprId rest = b.empty();
  if (item && max > length) {
    rest = b.repeat(b.sequence({text_.comma(), *item}), min > length ? min - length : 0,
                    max == kUnlimited ? kUnlimited : max - length);
  }
  for (uint32_t i = length; i > 0; --i) {
    const std::string own_path = format("{}/prefixItems/{}", path, i - 1);
    const ExprId own = OCTAVO_TRY(value(prefix[i - 1], own_path));
    if (i > max) {
      rest = b.empty();
      continue;
    }
    const ExprId whole = i == 1 ? b.sequence({own, rest}) : b.sequence({text_.comma(), own, rest});
    rest = b.add_and_call(own_path, i > min ? b.optional(whole) : whole);
  }
  return b.sequence({b.literal("["), text_.space(), rest, text_.space(), b.literal("]")});
}

Result<std::vector<SchemaCompiler::Member>> SchemaCompiler::members(const JsonObject& schema,
                                                                    std::optional<ExprId> others,
                                                                    const std::string& path) {
  std::vector<Member> members;
  if (const Json* properties = schema.if_contains("properties")) {
    if (!properties->is_object()) return schema_error(path, "properties must be an object");
    for (const auto& entry : properties->get_object()) {
      const std::string name(entry.key().data(), entry.key().size());
      const std::string own_path = child_path(path + "/properties", name);
      const ExprId own = OCTAVO_TRY(value(entry.value(), own_path));
      members.push_back({name, own, false});
    }
  }
  const Json* required = schema.if_contains("required");
  if (required == nullptr) return members;
  if (!required->is_array()) return schema_error(path, "required must be an array");
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < members.size(); ++i) by_name[members[i].name] = i;
  for (const Json& entry : required->get_array()) {
    if (!entry.is_string()) return schema_error(path, "required must hold strings");
    const std::string name(to_view(entry.get_string()));
    const auto [found, is_new] = by_name.try_emplace(name, members.size());
    if (is_new && !others) {
      return schema_error(path, format("additionalProperties forbids {}, which is required", name));
    }
    if (is_new) members.push_back({name, *others, true});
    members[found->second].required = true;
  }
  return members;
}

// Properties come in the order of the schema. some: one or more from the i-th on; rest: what may
// come after another.
ExprId SchemaCompiler::members_in_order(const std::vector<Member>& members,
                                        std::optional<ExprId> additional) {
  Builder& b = builder_;
  std::optional<ExprId> some;
  ExprId rest = b.empty();
  bool may_be_none = true;
  if (additional) {
    rest = b.repeat(b.sequence({text_.comma(), *additional}), 0, kUnlimited);
    some = b.sequence({*additional, rest});
  }
  for (size_t i = members.size(); i > 0; --i) {
    const Member& member = members[i - 1];
    const ExprId key = b.literal(dump_json(Json(member.name)));
    std::vector<ExprId> ways = {b.sequence({text_.member(key, member.value), rest})};
    if (!member.required && some) ways.push_back(*some);
    may_be_none = may_be_none && !member.required;
    some = b.add_and_call(member.name, b.alternatives(std::move(ways)));
    const ExprId more = b.sequence({text_.comma(), *some});
    rest = b.add_and_call(member.name, may_be_none ? b.optional(more) : more);
  }
  if (!some) return b.empty();
  return may_be_none ? b.optional(*some) : *some;
}

// Of members that are none of these.
Result<ExprId> SchemaCompiler::other_key(const std::vector<Member>& members,
                                         const std::string& path) {
  if (members.empty()) return text_.string(0, kUnlimited);
  std::vector<std::string> names;
  size_t num_bytes = 0;
  for (const Member& member : members) {
    names.push_back(member.name);
    num_bytes += member.name.size();
  }
  if (num_bytes <= kMaxOtherNamesBytes) return text_.string_except(names);
  return schema_error(path, format("the names beside additionalProperties have over {} bytes",
                                   kMaxOtherNamesBytes));
}

Result<ExprId> SchemaCompiler::object(const JsonObject& schema, const std::string& path) {
  const Json* rest = schema.if_contains("additionalProperties");
  const std::string rest_path = path + "/additionalProperties";
  std::optional<ExprId> others;
  if (rest == nullptr) {
    others = text_.any_value();
  } else if (!(rest->is_bool() && !rest->get_bool())) {
    others = builder_.add_and_call(rest_path, OCTAVO_TRY(value(*rest, rest_path)));
  }
  const std::vector<Member> own = OCTAVO_TRY(members(schema, others, path));
  if (own.empty() && rest == nullptr && !schema.contains("properties")) return text_.any_object();
  std::optional<ExprId> additional;
  if (rest != nullptr && others) {
    const ExprId key = OCTAVO_TRY(other_key(own, path));
    additional = builder_.add_and_call(rest_path, text_.member(key, *others));
  }
  const ExprId content = members_in_order(own, additional);
  return builder_.sequence(
      {builder_.literal("{"), text_.space(), content, text_.space(), builder_.literal("}")});
}

}  // namespace

Result<RuleId> compile_json_schema(const Json& schema, Builder& builder) {
  return SchemaCompiler(schema, builder).compile(schema);
}

}  // namespace octavo::grammar
