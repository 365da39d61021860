#include "model/weights.h"

#include <cstring>

#include "base/check.h"
#include "base/format.h"
#include "model/tensor_names.h"
#include "ops/decode_row.h"

namespace octavo::model {
namespace {

// Where row `row` of the result comes from in the file. The converter of GGUF files moved row
// p * (d/2) + i of a head to 2i + p.
int64_t source_row(int64_t row, const RowOrder& order) {
  if (!order.adjacent_pairs) return row;
  const int64_t half = order.head_dim / 2;
  const int64_t in_head = row % order.head_dim;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

// The same matrix in memory of its own, rows moved whole: blocks run along a row and stay intact.
Tensor reorder_rows(const Tensor& tensor, const RowOrder& order) {
  const int64_t rows = tensor.shape[0];
  const int64_t row_bytes = tensor.size_bytes() / rows;
  auto memory = std::make_shared<std::vector<std::byte>>(tensor.size_bytes());
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(memory->data() + row * row_bytes, tensor.data + source_row(row, order) * row_bytes,
                row_bytes);
  }
  return {tensor.name, tensor.dtype, tensor.shape, memory->data(), memory};
}

}  // namespace

WeightLoader::WeightLoader(const formats::Checkpoint& checkpoint, const ops::Ops& ops,
                           Device& device, LoadProgress progress, LoadMode mode)
    : checkpoint_(checkpoint),
      ops_(ops),
      device_(device),
      progress_(std::move(progress)),
      mode_(mode) {}

bool WeightLoader::has(std::string_view hf_name) const {
  return checkpoint_.find(file_tensor_name(checkpoint_.format_name(), hf_name)) != nullptr;
}

Result<Tensor> WeightLoader::take(std::string_view hf_name, const Shape& shape) {
  const std::string name = file_tensor_name(checkpoint_.format_name(), hf_name);
  const formats::TensorInfo* info = checkpoint_.find(name);
  if (info == nullptr) {
    return data_loss(format("{}: tensor '{}' is missing", checkpoint_.path(), name));
  }
  if (info->shape != shape) {
    return data_loss(format("{}: tensor '{}' has shape {}, which must be {}", checkpoint_.path(),
                            name, shape_string(info->shape), shape_string(shape)));
  }
  const bool first_use = taken_.insert(name).second;
  OCTAVO_CHECK(first_use);
  totals_.num_parameters += shape_count(shape);
  totals_.weight_bytes += info->size_bytes;
  if (progress_) progress_(totals_.weight_bytes, checkpoint_.file_bytes());
  return checkpoint_.tensor(*info);
}

Result<ops::Weight> WeightLoader::matrix(std::string_view hf_name, int64_t rows, int64_t cols,
                                         RowOrder order) {
  Tensor tensor = OCTAVO_TRY(take(hf_name, {rows, cols}));
  if (order.adjacent_pairs && mode_ == LoadMode::kCompute) tensor = reorder_rows(tensor, order);
  auto weight = ops_.pack_weight(ops_, device_, tensor);
  if (!weight.ok()) {
    return Status(weight.status().code(),
                  format("{}: {}", checkpoint_.path(), weight.status().message()));
  }
  return weight;
}

Result<std::vector<float>> WeightLoader::host_vector(std::string_view hf_name, int64_t count) {
  const Tensor tensor = OCTAVO_TRY(take(hf_name, {count}));
  const ops::DecodeRowFn decode = ops::decode_row_fn(tensor.dtype);
  if (decode == nullptr || count % dtype_traits(tensor.dtype).block_size != 0) {
    return unsupported(format("{}: tensor '{}' is a vector of {}", checkpoint_.path(), tensor.name,
                              dtype_traits(tensor.dtype).name));
  }
  std::vector<float> values(count);
  decode(tensor.data, values.data(), count);
  return values;
}

Result<Buffer> WeightLoader::vector(std::string_view hf_name, int64_t count, RowOrder order) {
  const std::vector<float> values = OCTAVO_TRY(host_vector(hf_name, count));
  if (!order.adjacent_pairs) return upload(values, hf_name);
  std::vector<float> reordered(count);
  for (int64_t i = 0; i < count; ++i) reordered[i] = values[source_row(i, order)];
  return upload(reordered, hf_name);
}

Result<Buffer> WeightLoader::optional_vector(std::string_view hf_name, int64_t count,
                                             RowOrder order) {
  if (!has(hf_name)) return Buffer{};
  return vector(hf_name, count, order);
}

Result<Buffer> WeightLoader::upload(const std::vector<float>& values, std::string_view what) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  Buffer buffer = OCTAVO_TRY(device_.allocate(bytes, what));
  device_.copy_to_device(buffer.data.get(), values.data(), bytes);
  return buffer;
}

Status WeightLoader::finish() const {
  int64_t left = 0;
  std::string first;
  for (const formats::TensorInfo& info : checkpoint_.tensors()) {
    if (taken_.contains(info.name)) continue;
    if (left++ == 0) first = info.name;
  }
  if (left == 0) return {};
  return data_loss(format("{}: {} tensor{} that this architecture does not use, first '{}'",
                          checkpoint_.path(), left, left == 1 ? "" : "s", first));
}

}  // namespace octavo::model
