// The keys of a quantization_config: typed look-ups whose errors name the key, and a judgement on
// those that nobody knows. For the readers of schemes alone.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace octavo::quant {

class ConfigKeys {
 public:
  // `source` (file and place in it) starts every error.
  ConfigKeys(const Json& config, std::string source)
      : config_(config), source_(std::move(source)) {}

  // nullptr where the key is absent or null.
  const Json* find(std::string_view key) const { return json_find(config_, key); }
  Result<int64_t> integer(std::string_view key) const { return json_int(config_, key, source_); }
  Result<double> number_or(std::string_view key, double otherwise) const;
  Result<bool> flag_or(std::string_view key, bool otherwise) const;
  Result<std::string> text_or(std::string_view key, std::string_view otherwise) const;
  // A list of strings; empty where the key is absent.
  Result<std::vector<std::string>> texts(std::string_view key) const;

  // A size of groups: positive, or 0, which is a whole row, for -1 and where there is none.
  Result<int64_t> group_size(std::string_view key) const;

  // The error that the value of `key` is not computed; `supported` says what is.
  Status refuse(std::string_view key, std::string_view supported) const;
  // The same unless the key is absent, null, false, empty or zero.
  Status refuse_if_set(std::string_view key) const;
  // A warning for each key that is not in `known`.
  void warn_of_others(std::span<const std::string_view> known) const;

  const Json& config() const { return config_; }
  const std::string& source() const { return source_; }

 private:
  const Json& config_;
  std::string source_;
};

}  // namespace octavo::quant
