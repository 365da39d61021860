// Whether a value matches a JSON schema, straight from the specification and knowing nothing of
// grammars: the oracle for answers. Patterns are matched by plain backtracking.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"

namespace octavo::testing {

// Patterns of literals, '.', \d, \w, classes of ranges, and the repeats ? * +; ^ and $.
class PatternMatcher {
 public:
  static bool search(std::string_view pattern, std::string_view text) {
    if (pattern.starts_with("^")) return match(pattern.substr(1), text);
    for (size_t i = 0; i <= text.size(); ++i) {
      if (match(pattern, text.substr(i))) return true;
    }
    return false;
  }

 private:
  static size_t atom_size(std::string_view pattern) {
    if (pattern[0] == '\\') return 2;
    return pattern[0] == '[' ? pattern.find(']') + 1 : 1;
  }

  static bool atom_matches(std::string_view atom, char c) {
    if (atom == ".") return c != '\n';
    if (atom == "\\d") return std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (atom == "\\w") return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (atom[0] == '\\') return atom[1] == c;
    if (atom[0] != '[') return atom[0] == c;
    const bool inverse = atom[1] == '^';
    bool in = false;
    for (size_t i = inverse ? 2 : 1; i + 1 < atom.size(); ++i) {
      const bool range = i + 3 < atom.size() && atom[i + 1] == '-';
      in = in || (atom[i] <= c && c <= atom[range ? i + 2 : i]);
      if (range) i += 2;
    }
    return in != inverse;
  }

  static bool match(std::string_view pattern, std::string_view text) {
    if (pattern.empty()) return true;
    if (pattern == "$") return text.empty();
    const size_t size = atom_size(pattern);
    const std::string_view atom = pattern.substr(0, size);
    const char repeat = pattern.size() > size ? pattern[size] : ' ';
    const bool repeats = repeat == '?' || repeat == '*' || repeat == '+';
    const std::string_view rest = pattern.substr(size + (repeats ? 1 : 0));
    const size_t min = repeats && repeat != '+' ? 0 : 1;
    const size_t max = repeats && repeat != '?' ? text.size() : 1;
    for (size_t n = 0; n <= std::min(max, text.size()); ++n) {
      if (n >= min && match(rest, text.substr(n))) return true;
      if (n < text.size() && !atom_matches(atom, text[n])) return false;
    }
    return false;
  }
};

class SchemaValidator {
 public:
  explicit SchemaValidator(const Json& root) : root_(root) {}

  bool matches(const Json& value) const { return matches(root_, value); }

 private:
  bool matches(const Json& schema, const Json& value) const {
    if (schema.is_bool()) return schema.get_bool();
    const JsonObject& s = schema.as_object();
    if (const Json* ref = s.if_contains("$ref")) {
      std::string pointer(to_view(ref->as_string()));
      if (!matches(*target(pointer), value)) return false;
    }
    return type_matches(s, value) && combined(s, value) && listed(s, value) &&
           (!value.is_object() || object(s, value.get_object())) &&
           (!value.is_array() || array(s, value.get_array())) &&
           (!value.is_string() || string(s, std::string(to_view(value.get_string())))) &&
           (!value.is_number() || number(s, exact(value)));
  }

  const Json* target(const std::string& pointer) const {
    const Json* at = &root_;
    for (size_t i = 1; i < pointer.size();) {
      const size_t end = std::min(pointer.find('/', i + 1), pointer.size());
      at = &at->as_object().at(pointer.substr(i + 1, end - i - 1));
      i = end;
    }
    return at;
  }

  static bool is(const Json& value, std::string_view type) {
    if (type == "integer") {
      return value.is_number() &&
             value.to_number<double>() == std::floor(value.to_number<double>());
    }
    return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
           (type == "string" && value.is_string()) || (type == "number" && value.is_number()) ||
           (type == "boolean" && value.is_bool()) || (type == "null" && value.is_null());
  }

  static bool type_matches(const JsonObject& s, const Json& value) {
    const Json* type = s.if_contains("type");
    if (type == nullptr) return true;
    if (type->is_string()) return is(value, to_view(type->get_string()));
    const auto& list = type->as_array();
    return std::any_of(list.begin(), list.end(),
                       [&](const Json& one) { return is(value, to_view(one.as_string())); });
  }

  bool combined(const JsonObject& s, const Json& value) const {
    const auto count = [&](const char* keyword) {
      const auto& list = s.at(keyword).as_array();
      return std::count_if(list.begin(), list.end(),
                           [&](const Json& one) { return matches(one, value); });
    };
    return (!s.contains("anyOf") || count("anyOf") > 0) &&
           (!s.contains("oneOf") || count("oneOf") == 1) &&
           (!s.contains("allOf") ||
            count("allOf") == static_cast<ptrdiff_t>(s.at("allOf").as_array().size()));
  }

  static bool listed(const JsonObject& s, const Json& value) {
    if (const Json* one = s.if_contains("const"); one != nullptr && *one != value) return false;
    const Json* list = s.if_contains("enum");
    return list == nullptr || std::find(list->as_array().begin(), list->as_array().end(), value) !=
                                  list->as_array().end();
  }

  bool object(const JsonObject& s, const JsonObject& value) const {
    if (const Json* required = s.if_contains("required")) {
      for (const Json& name : required->as_array()) {
        if (!value.contains(name.as_string())) return false;
      }
    }
    const Json* properties = s.if_contains("properties");
    const Json* additional = s.if_contains("additionalProperties");
    return std::all_of(value.begin(), value.end(), [&](const auto& entry) {
      const Json* own =
          properties == nullptr ? nullptr : properties->as_object().if_contains(entry.key());
      if (own != nullptr) return matches(*own, entry.value());
      return additional == nullptr || matches(*additional, entry.value());
    });
  }

  // Holds every integer of 64 bits, other than a double.
  static long double exact(const Json& number) {
    return number.is_int64() ? static_cast<long double>(number.get_int64())
                             : number.to_number<double>();
  }

  static bool within(const JsonObject& s, const char* min, const char* max, long double value) {
    const Json* least = s.if_contains(min);
    const Json* most = s.if_contains(max);
    return (least == nullptr || value >= exact(*least)) &&
           (most == nullptr || value <= exact(*most));
  }

  bool array(const JsonObject& s, const JsonArray& value) const {
    if (!within(s, "minItems", "maxItems", static_cast<long double>(value.size()))) return false;
    const Json* items = s.if_contains("items");
    const Json* prefix = s.if_contains("prefixItems");
    if (items != nullptr && items->is_array()) prefix = std::exchange(items, nullptr);
    const size_t num_prefix = prefix == nullptr ? 0 : prefix->as_array().size();
    for (size_t i = 0; i < value.size(); ++i) {
      const Json* own = i < num_prefix ? &prefix->as_array()[i] : items;
      if (own != nullptr && !matches(*own, value[i])) return false;
    }
    return true;
  }

  static bool string(const JsonObject& s, const std::string& value) {
    size_t length = 0;
    for (size_t i = 0; i < value.size(); i += utf8_decode(value, i).size_bytes) ++length;
    if (!within(s, "minLength", "maxLength", static_cast<long double>(length))) return false;
    const Json* pattern = s.if_contains("pattern");
    return pattern == nullptr || PatternMatcher::search(to_view(pattern->as_string()), value);
  }

  static bool number(const JsonObject& s, long double value) {
    const Json* above = s.if_contains("exclusiveMinimum");
    const Json* below = s.if_contains("exclusiveMaximum");
    return within(s, "minimum", "maximum", value) && (above == nullptr || value > exact(*above)) &&
           (below == nullptr || value < exact(*below));
  }

  const Json& root_;
};

}  // namespace octavo::testing
