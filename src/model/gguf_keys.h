// GgufKeys: the metadata of a GGUF file below an architecture's prefix, asked for by name; it
// remembers which, so that the rest can be judged. For the files gguf_*.cpp alone.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "model/architectures.h"
#include "model/config.h"

namespace octavo::model {

class GgufKeys {
 public:
  GgufKeys(const formats::Checkpoint& checkpoint, std::string prefix)
      : metadata_(checkpoint.metadata()), path_(checkpoint.path()), prefix_(std::move(prefix)) {}

  bool has(std::string_view key) { return json_find(metadata_, full(key)) != nullptr; }

  // A count in [1, max]. Files may hold one value for each layer: accepted where all are equal.
  Result<int64_t> count(std::string_view key, int64_t max);
  // 0, also where the key is absent, or such a count.
  Result<int64_t> count_or_none(std::string_view key, int64_t max);
  Result<double> number(std::string_view key);  // positive
  // 0, also where the key is absent, or such a number.
  Result<double> number_or_none(std::string_view key);
  Result<double> number_or(std::string_view key, double otherwise);
  Result<std::string> text(std::string_view key);

  // Judges the keys that nobody asked for: of one that changes the result elsewhere and is set, an
  // error; of any other, a warning.
  Status judge_rest();

  const std::string& path() const { return path_; }
  // The key with its prefix; from now on it counts as asked for.
  std::string full(std::string_view key);

 private:
  Result<int64_t> uniform(const std::string& name, const JsonArray& values, int64_t max) const;

  const Json& metadata_;
  const std::string path_;
  const std::string prefix_;
  std::set<std::string> read_;
};

// rope.*, and the tensors of frequency factors; sizes have been read.
Status read_gguf_rope(GgufKeys& keys, const formats::Checkpoint& checkpoint, ModelConfig& config);

// Windows, chunks, rotation and experts, layer by layer.
Status read_gguf_layers(GgufKeys& keys, ModelConfig& config);

}  // namespace octavo::model
