#include "model/gguf_keys.h"

#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"

namespace octavo::model {
namespace {

// Keys that some architecture has, and that change the result.
constexpr std::string_view kInfluencingKeys[] = {"expert_count",
                                                 "expert_used_count",
                                                 "expert_shared_count",
                                                 "expert_weights_scale",
                                                 "attention.sliding_window",
                                                 "attention.clamp_kqv",
                                                 "attention.max_alibi_bias",
                                                 "attention.scale",
                                                 "attention.logit_softcapping",
                                                 "final_logit_softcapping",
                                                 "logit_scale",
                                                 "residual_scale",
                                                 "embedding_scale",
                                                 "attn_logit_softcapping",
                                                 "rope.scaling.attn_factor",
                                                 "rope.scaling.yarn_log_multiplier"};

Result<int64_t> in_range(const std::string& path, const std::string& name, int64_t value,
                         int64_t max) {
  if (value < 1 || value > max) {
    return data_loss(format("{}: '{}' is {}, which must lie in 1..{}", path, name, value, max));
  }
  return value;
}

}  // namespace

std::string GgufKeys::full(std::string_view key) {
  std::string name = prefix_ + std::string(key);
  read_.insert(name);
  return name;
}

Result<int64_t> GgufKeys::count(std::string_view key, int64_t max) {
  const std::string name = full(key);
  const Json* value = json_find(metadata_, name);
  if (value != nullptr && value->is_array()) return uniform(name, value->get_array(), max);
  return in_range(path_, name, OCTAVO_TRY(json_int(metadata_, name, path_)), max);
}

Result<int64_t> GgufKeys::count_or_none(std::string_view key, int64_t max) {
  const Json* value = json_find(metadata_, full(key));
  if (value == nullptr || *value == Json(0) || *value == Json(0u)) return 0;
  return count(key, max);
}

Result<double> GgufKeys::number(std::string_view key) {
  const std::string name = full(key);
  const double value = OCTAVO_TRY(json_double(metadata_, name, path_));
  if (!std::isfinite(value) || value <= 0) {
    return data_loss(format("{}: '{}' is {}, which must be a positive number", path_, name, value));
  }
  return value;
}

Result<double> GgufKeys::number_or_none(std::string_view key) {
  const Json* value = json_find(metadata_, full(key));
  if (value == nullptr || (value->is_number() && value->to_number<double>() == 0)) return 0;
  return number(key);
}

Result<double> GgufKeys::number_or(std::string_view key, double otherwise) {
  if (!has(key)) return otherwise;
  return number(key);
}

Result<std::string> GgufKeys::text(std::string_view key) {
  return json_string(metadata_, full(key), path_);
}

Result<int64_t> GgufKeys::uniform(const std::string& name, const JsonArray& values,
                                  int64_t max) const {
  if (values.empty()) return data_loss(format("{}: '{}' is an empty array", path_, name));
  for (const Json& value : values) {
    if (!value.is_number()) return data_loss(format("{}: '{}' must hold integers", path_, name));
    if (value != values[0]) {
      return unsupported(format("{}: '{}' differs from layer to layer", path_, name));
    }
  }
  JsonObject one{{"value", values[0]}};
  return in_range(path_, name, OCTAVO_TRY(json_int(one, "value", path_)), max);
}

Status GgufKeys::judge_rest() {
  for (const std::string_view key : kInfluencingKeys) {
    if (read_.contains(prefix_ + std::string(key))) continue;
    const double value = OCTAVO_TRY(number_or_none(key));  // zero means: not used
    if (value == 0) continue;
    return unsupported(format("{}: '{}' is {}, which octavo does not compute for this architecture",
                              path_, full(key), value));
  }
  for (const auto& item : metadata_.get_object()) {
    const std::string key(item.key().data(), item.key().size());
    if (key.starts_with(prefix_) && !read_.contains(key)) {
      log_warning("{}: '{}' is not known and has no effect", path_, key);
    }
  }
  return {};
}

}  // namespace octavo::model
