#include "grammar/schema_scalars.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/format.h"
#include "grammar/regex.h"
#include "grammar/schema_merge.h"

namespace octavo::grammar {
namespace {

// Beyond it a bound does not bind: integers have at most 18 digits.
constexpr int64_t kMaxBound = 1'000'000'000'000'000'000;

struct StringFormat {
  std::string_view name;
  std::string_view regex;
};

#define OCTAVO_TIME R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))"
#define OCTAVO_DATE                                                                  \
  R"(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|)" \
  R"(02-(0[1-9]|1\d|2[0-8])))"

// A 29th of February is left out, and so are leap seconds.
constexpr StringFormat kFormats[] = {
    {"date", OCTAVO_DATE},
    {"time", OCTAVO_TIME},
    {"date-time", OCTAVO_DATE "T" OCTAVO_TIME},
    {"uuid", R"([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"},
    {"ipv4", R"(((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))"},
};

Result<std::optional<int64_t>> read_count(const JsonObject& schema, const char* keyword,
                                          const std::string& path) {
  const Json* value = schema.if_contains(keyword);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<double> number =
      value->is_number() ? std::optional(value->to_number<double>()) : std::nullopt;
  if (!number || !(*number >= 0) || std::trunc(*number) != *number) {
    return schema_error(path, format("{} must be a whole number, 0 or more", keyword));
  }
  return std::optional(static_cast<int64_t>(std::min<double>(*number, kMaxCount + 1)));
}

}  // namespace

Result<std::pair<uint32_t, uint32_t>> read_counts(const JsonObject& schema, const char* least,
                                                  const char* most, const std::string& path) {
  const int64_t min = OCTAVO_TRY(read_count(schema, least, path)).value_or(0);
  const auto max = OCTAVO_TRY(read_count(schema, most, path));
  if (min > kMaxCount) return schema_error(path, format("{} is too large", least));
  if (max && *max < min) return schema_error(path, format("{} is below {}", most, least));
  return std::pair(static_cast<uint32_t>(min),
                   max && *max <= kMaxCount ? static_cast<uint32_t>(*max) : kUnlimited);
}

Result<ExprId> compile_string(const JsonObject& schema, const std::string& path, Builder& builder,
                              JsonText& text) {
  const auto [min, max] = OCTAVO_TRY(read_counts(schema, "minLength", "maxLength", path));
  const Json* pattern = schema.if_contains("pattern");
  const Json* name = schema.if_contains("format");
  const bool counted = schema.contains("minLength") || schema.contains("maxLength");
  if ((pattern != nullptr) + (name != nullptr) + counted > 1) {
    return schema_error(path, "pattern, format and a length together are not supported");
  }
  if (pattern == nullptr && name == nullptr) return text.string(min, max);
  const Json& given = pattern != nullptr ? *pattern : *name;
  const char* const keyword = pattern != nullptr ? "pattern" : "format";
  if (!given.is_string()) return schema_error(path, format("{} must be a string", keyword));
  std::string_view regex = to_view(given.get_string());
  if (name != nullptr) {
    const auto* known = std::find_if(std::begin(kFormats), std::end(kFormats),
                                     [&](const StringFormat& own) { return own.name == regex; });
    if (known == std::end(kFormats)) {
      return schema_error(path, format("the format {} is not supported", regex));
    }
    regex = known->regex;
  }
  const auto content = parse_regex(regex, builder, [&](const CharSet& s) { return text.chars(s); });
  if (content.ok()) return text.quoted(*content);
  return schema_error(path, format("{}: {}", keyword, content.status().message()));
}

Result<ExprId> compile_number(const JsonObject& schema, const std::string& path, bool integer,
                              JsonText& text) {
  std::optional<int64_t> min;
  std::optional<int64_t> max;
  const auto read = [&](const char* keyword, bool lower, bool exclusive) -> Status {
    const Json* value = schema.if_contains(keyword);
    if (value == nullptr) return {};
    if (!value->is_number()) return schema_error(path, format("{} must be a number", keyword));
    const auto keep = [&](int64_t whole) {
      if (lower) {
        min = std::max(min.value_or(whole), whole);
      } else {
        max = std::min(max.value_or(whole), whole);
      }
      return Status();
    };
    const int64_t step = exclusive ? (lower ? 1 : -1) : 0;
    if (integer && value->is_int64()) {  // a double does not hold all of them
      return keep(std::clamp(value->get_int64(), -kMaxBound, kMaxBound) + step);
    }
    const double bound = value->to_number<double>();
    if (!integer && (exclusive || std::trunc(bound) != bound)) {
      return schema_error(path, format("{} of a number is supported for whole bounds only, and "
                                       "not for exclusive ones",
                                       keyword));
    }
    double nearest = lower ? std::ceil(bound) : std::floor(bound);
    if (nearest == bound) nearest += static_cast<double>(step);
    constexpr auto kMost = static_cast<double>(kMaxBound);
    return keep(static_cast<int64_t>(std::clamp(nearest, -kMost, kMost)));
  };
  OCTAVO_TRY(read("minimum", true, false));
  OCTAVO_TRY(read("exclusiveMinimum", true, true));
  OCTAVO_TRY(read("maximum", false, false));
  OCTAVO_TRY(read("exclusiveMaximum", false, true));
  if (!min && !max) return integer ? text.integer() : text.number();
  if ((min && max && *min > *max) || (min && *min >= kMaxBound) || (max && *max <= -kMaxBound)) {
    return schema_error(path, "minimum and maximum leave no number of at most 18 digits");
  }
  return integer ? text.integer_between(min, max) : text.number_between(min, max);
}

}  // namespace octavo::grammar
