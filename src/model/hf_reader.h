// HfReader: an object of a config.json, whose keys are asked for by name; it remembers which, so
// that the rest can be judged. For the files hf_*.cpp alone.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/architectures.h"
#include "model/config.h"

namespace octavo::model {

class HfReader {
 public:
  // `source` (file and place in it) starts every error.
  HfReader(const Json& config, std::string source) : config_(config), source_(std::move(source)) {}

  // Null counts as absent.
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const Json* find(std::string_view key) const {
    read_.emplace(key);
    return json_find(config_, key);
  }

  Result<int64_t> integer(std::string_view key) const;
  Result<int64_t> integer_or(std::string_view key, int64_t otherwise) const;
  // In [1, max].
  Result<int64_t> count(std::string_view key, int64_t max) const;
  Result<bool> flag_or(std::string_view key, bool otherwise) const;
  Result<std::string> text_or(std::string_view key, std::string_view otherwise) const;
  Result<double> positive(std::string_view key) const;
  Result<double> positive_or(std::string_view key, double otherwise) const;
  // Of exactly `size` elements.
  Result<std::vector<std::string>> texts(std::string_view key, int64_t size) const;
  Result<std::vector<double>> positives(std::string_view key, int64_t size) const;
  // Of any size up to `max_size`.
  Result<std::vector<int64_t>> integers(std::string_view key, int64_t max_size) const;

  // Judges the keys that nobody asked for: of one that changes the result elsewhere and is set, an
  // error; of one that is known to change nothing, silence; of any other, a warning.
  Status judge_rest() const;

  const Json& config() const { return config_; }
  const std::string& source() const { return source_; }

 private:
  Result<const JsonArray*> array(std::string_view key, int64_t min_size, int64_t max_size) const;

  const Json& config_;
  std::string source_;
  mutable std::set<std::string, std::less<>> read_;
};

// rope_theta, rope_scaling, rope_parameters and relatives; sizes have been read.
Status read_hf_rope(const HfReader& reader, ModelConfig& config);

// Windows, chunks, rotation and experts, layer by layer.
Status read_hf_layers(const HfReader& reader, ModelConfig& config);

}  // namespace octavo::model
