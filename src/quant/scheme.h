// Scheme: how the linears of a quantised Hugging Face checkpoint are stored, as the
// quantization_config of its config.json says. It knows which tensors make up one linear, checks
// them, and brings them into a form that backends compute with; the values are the scheme's own,
// bit for bit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/thread_pool.h"
#include "formats/checkpoint.h"
#include "ops/weight.h"

namespace octavo::quant {

// Where a scheme gets tensors from.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  virtual const std::string& path() const = 0;
  // nullptr where there is none of that name.
  virtual const formats::TensorInfo* find(std::string_view name) const = 0;
  // Each tensor once. One that is missing or of another shape is an error that names it.
  virtual Result<Tensor> take(std::string_view name, const Shape& shape) = 0;
  // Sizes alone are wanted: no scheme reads the data of a tensor, or writes that of a result.
  virtual bool measures() const = 0;
  // Threads that may bring a tensor into another form; nullptr: the caller alone.
  virtual ThreadPool* pool() const { return nullptr; }
};

struct QuantizedMatrix {
  Tensor tensor;              // [rows, cols]; data may be null where the source measures
  std::vector<float> scales;  // as Weight::scales; empty where the source measures
  int64_t scale_block = 0;
  int64_t group = 0;                 // as Weight::group
  std::vector<int32_t> input_order;  // as InputForm::order
  ops::InputForm input;              // but for the order
};

// Matrices [rows, cols] in one tensor, as the file has it.
struct QuantizedStack {
  Tensor tensor;
  std::vector<float> scales;  // of each row of each matrix; empty where the source measures
  int64_t scale_block = 0;    // cols, or 0 where there are no scales
  ops::InputForm input;
};

class Scheme {
 public:
  virtual ~Scheme() = default;

  // For people: e.g. "awq: int4 in groups of 128".
  virtual std::string description() const = 0;

  // Whether the checkpoint holds the linear `module` ("model.layers.0.mlp.up_proj") in this
  // scheme. False where the configuration excludes it, or the file has a plain matrix.
  virtual bool holds(const TensorSource& source, std::string_view module) const = 0;

  // The linear [rows, cols] = [out_features, in_features].
  virtual Result<QuantizedMatrix> load(TensorSource& source, std::string_view module, int64_t rows,
                                       int64_t cols) const = 0;

  // The tensor `name` of `count` matrices [rows, cols], whose order in it is the scheme's; nothing
  // where the checkpoint does not hold it in this scheme.
  virtual Result<std::optional<QuantizedStack>> load_stack(TensorSource& source,
                                                           std::string_view name, int64_t count,
                                                           int64_t rows, int64_t cols) const;
};

// A row of THE table of schemes; the texts are those of docs/quantization.md.
struct SchemeRow {
  std::string_view quant_method;
  std::string_view stored;       // what it reads
  std::string_view activations;  // how inputs of products are rounded
  std::string_view held;         // the form that it is loaded into, with its bits a weight
  Result<std::unique_ptr<Scheme>> (*read)(const Json& config, const std::string& source);
};
std::span<const SchemeRow> schemes();

// The scheme that an object `quantization_config` describes; `source` starts every error. A value
// that changes the result and is not implemented is an error that names its key.
Result<std::shared_ptr<const Scheme>> read_scheme(const Json& config, const std::string& source);

// Where a config.json, or its text_config, has the object that read_scheme takes; the older name is
// that of compressed-tensors.
inline constexpr std::string_view kConfigKeys[] = {"quantization_config", "compression_config"};

// That object, or nullptr.
const Json* find_quantization_config(const Json& config);

// Whether a tensor holds scales for a KV cache in 8 bits, which nothing here needs.
bool is_kv_cache_scale(std::string_view name);

}  // namespace octavo::quant
