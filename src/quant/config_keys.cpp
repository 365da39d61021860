#include "quant/config_keys.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"

namespace octavo::quant {
namespace {

bool is_set(const Json& value) {
  if (value.is_null()) return false;
  if (value.is_bool()) return value.get_bool();
  if (value.is_array()) return !value.get_array().empty();
  if (value.is_object()) return !value.get_object().empty();
  if (value.is_number()) return value.to_number<double>() != 0;
  return true;
}

}  // namespace

Result<double> ConfigKeys::number_or(std::string_view key, double otherwise) const {
  if (find(key) == nullptr) return otherwise;
  return json_double(config_, key, source_);
}

Result<bool> ConfigKeys::flag_or(std::string_view key, bool otherwise) const {
  if (find(key) == nullptr) return otherwise;
  return json_bool(config_, key, source_);
}

Result<std::string> ConfigKeys::text_or(std::string_view key, std::string_view otherwise) const {
  if (find(key) == nullptr) return std::string(otherwise);
  return json_string(config_, key, source_);
}

Result<std::vector<std::string>> ConfigKeys::texts(std::string_view key) const {
  std::vector<std::string> texts;
  if (find(key) == nullptr) return texts;
  for (const Json& value : *OCTAVO_TRY(json_array(config_, key, source_))) {
    if (!value.is_string()) return data_loss(format("{}: '{}' must hold strings", source_, key));
    texts.emplace_back(to_view(value.get_string()));
  }
  return texts;
}

Result<int64_t> ConfigKeys::group_size(std::string_view key) const {
  const int64_t size = find(key) == nullptr ? -1 : OCTAVO_TRY(integer(key));
  if (size == -1) return 0;
  if (size < 1 || size > INT32_MAX) {
    return data_loss(format("{}: '{}' is {}, which must be positive, or -1", source_, key, size));
  }
  return size;
}

Status ConfigKeys::refuse(std::string_view key, std::string_view supported) const {
  const Json* value = find(key);
  return unsupported(format("{}: '{}' is {}; octavo computes {}", source_, key,
                            value == nullptr ? "absent" : dump_json(*value), supported));
}

Status ConfigKeys::refuse_if_set(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !is_set(*value)) return {};
  return unsupported(
      format("{}: '{}' is {}, which octavo does not compute", source_, key, dump_json(*value)));
}

void ConfigKeys::warn_of_others(std::span<const std::string_view> known) const {
  for (const auto& item : config_.get_object()) {
    const std::string_view key(item.key().data(), item.key().size());
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    log_warning("{}: '{}' is not known and has no effect", source_, key);
  }
}

}  // namespace octavo::quant
