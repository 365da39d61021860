// WeightLoader: takes tensors out of a checkpoint by their Hugging Face names, each exactly once.
// What is missing, doubled, unknown or of the wrong shape is an error that names it.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "model/architectures.h"
#include "model/causal_lm.h"
#include "model/matrix_rows.h"
#include "ops/ops.h"
#include "quant/scheme.h"
#include "tensor/device.h"

namespace octavo::model {

using LoadProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// kMeasure: checks and counts everything, but matrices stay as they lie in the file, so that none
// is read. The model cannot compute.
enum class LoadMode { kCompute, kMeasure };

class WeightLoader final : private quant::TensorSource {
 public:
  WeightLoader(const formats::Checkpoint& checkpoint, const ModelConfig& config,
               const ops::Ops& ops, Device& device, ThreadPool* pool, LoadProgress progress,
               LoadMode mode = LoadMode::kCompute);

  bool is_gguf() const { return checkpoint_.format_name() == "gguf"; }
  bool has(std::string_view hf_name) const;

  // A matrix [rows, cols], packed for the backend: a plain tensor, or a linear in the checkpoint's
  // scheme.
  Result<ops::Weight> matrix(std::string_view hf_name, int64_t rows, int64_t cols,
                             RowOrder order = {});

  // The same, decoded to kF32 first: for small matrices whose rounding would show.
  Result<ops::Weight> float_matrix(std::string_view hf_name, int64_t rows, int64_t cols);

  // One matrix [sum of rows, cols] as several that lie in it one above the other.
  Result<std::vector<ops::Weight>> matrix_parts(std::string_view hf_name,
                                                std::span<const int64_t> rows, int64_t cols);

  // One tensor [count, rows, cols] as `count` matrices, plain or in the checkpoint's scheme.
  Result<std::vector<ops::Weight>> matrix_stack(std::string_view hf_name, int64_t count,
                                                int64_t rows, int64_t cols);

  // One tensor [count, cols, sum of rows], of matrices that lie transposed, plain or in the
  // checkpoint's scheme, as a stack of each part. Takes memory of its own, where the others are
  // views.
  Result<std::vector<std::vector<ops::Weight>>> transposed_stack(std::string_view hf_name,
                                                                 int64_t count,
                                                                 std::span<const int64_t> rows,
                                                                 int64_t cols);

  // A vector of `count` values as kF32 in device memory.
  Result<Buffer> vector(std::string_view hf_name, int64_t count, RowOrder order = {});

  // The same, or an empty buffer where the checkpoint has no such tensor.
  Result<Buffer> optional_vector(std::string_view hf_name, int64_t count, RowOrder order = {});

  // What a norm multiplies by.
  Result<Buffer> norm(std::string_view hf_name, int64_t count);

  // A vector for the host, e.g. frequencies that a table is computed from.
  Result<std::vector<float>> host_vector(std::string_view hf_name, int64_t count);

  // Copies host floats to the device.
  Result<Buffer> upload(const std::vector<float>& values, std::string_view what);

  // After everything was taken: what is left over must be known to be redundant, which one line in
  // the log says; any other tensor is an error.
  Status finish() const;

  // Counts of what was taken so far; decode_bytes is the architecture's to set.
  const WeightTotals& totals() const { return totals_; }

  const std::string& path() const override { return checkpoint_.path(); }
  Device& device() const { return packing_.device; }
  const ops::Ops& ops() const { return ops_; }

 private:
  // For schemes, by the file's own names.
  const formats::TensorInfo* find(std::string_view name) const override;
  Result<Tensor> take(std::string_view name, const Shape& shape) override;
  ThreadPool* pool() const override { return packing_.pool; }
  bool measures() const override { return mode_ == LoadMode::kMeasure; }

  std::string file_name(std::string_view hf_name) const;
  Result<Tensor> take_plain(std::string_view hf_name, const Shape& shape);
  std::string quantized_module(std::string_view hf_name) const;
  Result<quant::QuantizedMatrix> take_quantized(const std::string& module, int64_t rows,
                                                int64_t cols);
  Result<quant::QuantizedStack> take_stack(std::string_view hf_name, int64_t count, int64_t rows,
                                           int64_t cols, const Shape& plain_shape);
  Result<ops::Weight> pack(const Tensor& tensor, std::span<const int64_t> source_rows = {});
  Status at_path(const Status& status) const;
  void count_stored(int64_t num_parameters, int64_t size_bytes);
  void count_packed(const ops::Weight& weight, const Tensor& tensor);
  Result<ops::Weight> pack_quantized(const quant::QuantizedMatrix& matrix);
  void give_back(const Tensor& tensor) const;
  void log_held() const;
  std::string_view why_redundant(std::string_view name) const;

  const formats::Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const Architecture& architecture_;
  const ops::Ops& ops_;
  ops::PackContext packing_;
  LoadProgress progress_;
  LoadMode mode_;
  const bool counts_packed_;  // weight_bytes are those of the device, not of the file
  std::set<std::string> taken_;
  int64_t taken_bytes_ = 0;   // of the file
  int64_t num_as_codes_ = 0;  // quantised matrices, of a backend that may want either
  int64_t num_as_values_ = 0;
  WeightTotals totals_;
};

}  // namespace octavo::model
