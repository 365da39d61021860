#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "model/tensor_names.h"
#include "ops/decode_row.h"
#include "quant/quantized_matrix.h"

namespace octavo::model {
namespace {

// Where row `row` of the result comes from in the file: row p * (d/2) + i of a head lies at 2i + p.
int64_t source_row(int64_t row, const RowOrder& order) {
  if (!order.adjacent_pairs) return row;
  const int64_t half = order.head_dim / 2;
  const int64_t in_head = row % order.head_dim;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

std::vector<int64_t> source_rows_of(int64_t rows, const RowOrder& order) {
  std::vector<int64_t> source_rows(rows);
  for (int64_t row = 0; row < rows; ++row) source_rows[row] = source_row(row, order);
  return source_rows;
}

// A matrix in memory of its own.
struct OwnedMatrix {
  OwnedMatrix(const Tensor& like, DType dtype, int64_t rows, int64_t cols)
      : bytes(std::make_shared<std::vector<std::byte>>(rows * dtype_bytes(dtype, cols))),
        tensor{like.name, dtype, {rows, cols}, bytes->data(), bytes} {}

  std::shared_ptr<std::vector<std::byte>> bytes;
  Tensor tensor;
};

// Rows [begin, begin + rows) of a matrix or of a stack of them, `cols` values each.
Tensor slice_rows(const Tensor& tensor, int64_t begin, int64_t rows, int64_t cols) {
  const int64_t row_bytes = dtype_bytes(tensor.dtype, cols);
  return {tensor.name, tensor.dtype, {rows, cols}, tensor.data + begin * row_bytes, tensor.owner};
}

// dst[c, r] = src[r, c], in squares that stay in the cache; `T` has a value's size.
template <typename T>
void transpose(T* dst, const T* src, int64_t rows, int64_t cols, int64_t src_stride) {
  constexpr int64_t kSquare = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kSquare) {
    for (int64_t c0 = 0; c0 < cols; c0 += kSquare) {
      for (int64_t c = c0; c < std::min(c0 + kSquare, cols); ++c) {
        for (int64_t r = r0; r < std::min(r0 + kSquare, rows); ++r) {
          dst[c * rows + r] = src[r * src_stride + c];
        }
      }
    }
  }
}

// Columns [begin, begin + rows) of the `cols` rows at `src`, as a matrix [rows, cols].
Tensor transposed_columns(const Tensor& tensor, const std::byte* src, int64_t begin, int64_t rows,
                          int64_t cols, int64_t stride) {
  const OwnedMatrix result(tensor, tensor.dtype, rows, cols);
  void* dst = result.bytes->data();
  if (dtype_traits(tensor.dtype).block_bytes == 4) {
    transpose(static_cast<uint32_t*>(dst), reinterpret_cast<const uint32_t*>(src) + begin, cols,
              rows, stride);
  } else {
    transpose(static_cast<uint16_t*>(dst), reinterpret_cast<const uint16_t*>(src) + begin, cols,
              rows, stride);
  }
  return result.tensor;
}

}  // namespace

WeightLoader::WeightLoader(const formats::Checkpoint& checkpoint, const ModelConfig& config,
                           const ops::Ops& ops, Device& device, ThreadPool* pool,
                           LoadProgress progress, LoadMode mode)
    : checkpoint_(checkpoint),
      config_(config),
      architecture_(*find_hf_architecture(config.architecture)),
      ops_(ops),
      packing_{device, pool, nullptr},
      progress_(std::move(progress)),
      mode_(mode),
      counts_packed_(!device.host_accessible()) {}

std::string WeightLoader::file_name(std::string_view hf_name) const {
  if (is_gguf()) return gguf_tensor_name(hf_name, config_.traits.norms);
  return format("{}{}", architecture_.text_prefix, hf_name);
}

bool WeightLoader::has(std::string_view hf_name) const {
  return checkpoint_.find(file_name(hf_name)) != nullptr;
}

const formats::TensorInfo* WeightLoader::find(std::string_view name) const {
  return checkpoint_.find(name);
}

Result<Tensor> WeightLoader::take(std::string_view name, const Shape& shape) {
  const formats::TensorInfo* info = checkpoint_.find(name);
  if (info == nullptr) {
    return data_loss(format("{}: tensor '{}' is missing", checkpoint_.path(), name));
  }
  if (info->shape != shape) {
    return data_loss(format("{}: tensor '{}' has shape {}, which must be {}", checkpoint_.path(),
                            name, shape_string(info->shape), shape_string(shape)));
  }
  const DTypeTraits& traits = dtype_traits(info->dtype);
  if (!shape.empty() && shape.back() % traits.block_size != 0) {
    return data_loss(format("{}: tensor '{}': rows of {} values are not whole blocks of {} ({})",
                            checkpoint_.path(), name, shape.back(), traits.block_size,
                            traits.name));
  }
  const bool first_use = taken_.emplace(name).second;
  OCTAVO_CHECK(first_use);
  taken_bytes_ += info->size_bytes;
  if (progress_) progress_(taken_bytes_, checkpoint_.file_bytes());
  return checkpoint_.tensor(*info);
}

Result<Tensor> WeightLoader::take_plain(std::string_view hf_name, const Shape& shape) {
  Tensor tensor = OCTAVO_TRY(take(file_name(hf_name), shape));
  count_stored(tensor.count(), tensor.size_bytes());
  return tensor;
}

void WeightLoader::count_stored(int64_t num_parameters, int64_t size_bytes) {
  totals_.num_parameters += num_parameters;
  if (!counts_packed_) totals_.weight_bytes += size_bytes;
}

// The linear whose weight is asked for, "" unless the checkpoint has it in its scheme.
std::string WeightLoader::quantized_module(std::string_view hf_name) const {
  constexpr std::string_view kWeight = ".weight";
  if (config_.quantization == nullptr || !hf_name.ends_with(kWeight)) return "";
  std::string module = file_name(hf_name);
  module.resize(module.size() - kWeight.size());
  return config_.quantization->holds(*this, module) ? module : "";
}

Result<quant::QuantizedMatrix> WeightLoader::take_quantized(const std::string& module, int64_t rows,
                                                            int64_t cols) {
  auto matrix = OCTAVO_TRY(config_.quantization->load(*this, module, rows, cols));
  const int64_t scales =
      matrix.scale_block == 0 ? 0 : (cols + matrix.scale_block - 1) / matrix.scale_block;
  count_stored(rows * cols,
               matrix.tensor.size_bytes() + rows * scales * static_cast<int64_t>(sizeof(float)));
  return matrix;
}

Result<ops::Weight> WeightLoader::pack(const Tensor& tensor, std::span<const int64_t> source_rows) {
  auto weight = ops_.pack_weight(ops_, packing_, tensor, source_rows);
  if (!weight.ok()) {
    return Status(weight.status().code(),
                  format("{}: {}", checkpoint_.path(), weight.status().message()));
  }
  if (weight->owner != tensor.owner) give_back(tensor);
  if (counts_packed_) totals_.weight_bytes += weight->size_bytes();
  return weight;
}

Result<ops::Weight> WeightLoader::pack_quantized(const quant::QuantizedMatrix& stored) {
  // A backend that cannot compute with the codes gets the values, which have no scales.
  const bool as_values = ops_.linear_by_dtype[static_cast<int>(stored.tensor.dtype)] == nullptr &&
                         !stored.scales.empty() && !measures();
  const quant::QuantizedMatrix matrix = as_values ? quant::decode(stored) : stored;
  ops::Weight weight = OCTAVO_TRY(pack(matrix.tensor));
  weight.input = matrix.input;
  weight.scale_block = matrix.scale_block;
  if (matrix.scales.empty() && matrix.input_order.empty()) return weight;
  struct Owner {
    std::shared_ptr<const void> data;
    Buffer scales, order;
  };
  auto owner = std::make_shared<Owner>();
  owner->data = weight.owner;
  owner->scales = OCTAVO_TRY(upload(matrix.scales, matrix.tensor.name));
  weight.scales = matrix.scales.empty() ? nullptr : owner->scales.as<float>();
  if (!matrix.input_order.empty()) {
    const auto bytes = static_cast<int64_t>(matrix.input_order.size() * sizeof(int32_t));
    owner->order = OCTAVO_TRY(device().allocate(bytes, matrix.tensor.name));
    device().copy_to_device(owner->order.data.get(), matrix.input_order.data(), bytes);
    weight.input.order = owner->order.as<int32_t>();
  }
  weight.owner = std::move(owner);
  return weight;
}

// What was copied is not needed in memory a second time.
void WeightLoader::give_back(const Tensor& tensor) const {
  checkpoint_.give_back({tensor.data, static_cast<size_t>(tensor.size_bytes())});
}

Result<ops::Weight> WeightLoader::matrix(std::string_view hf_name, int64_t rows, int64_t cols,
                                         RowOrder order) {
  if (const std::string module = quantized_module(hf_name); !module.empty()) {
    const auto quantized = OCTAVO_TRY(take_quantized(module, rows, cols));
    if (!order.adjacent_pairs || measures()) return pack_quantized(quantized);
    return pack_quantized(quant::gather_rows(quantized, source_rows_of(rows, order)));
  }
  const Tensor tensor = OCTAVO_TRY(take_plain(hf_name, {rows, cols}));
  if (!order.adjacent_pairs || measures()) return pack(tensor);
  return pack(tensor, source_rows_of(rows, order));
}

Result<ops::Weight> WeightLoader::float_matrix(std::string_view hf_name, int64_t rows,
                                               int64_t cols) {
  if (const std::string module = quantized_module(hf_name); !module.empty()) {
    const auto quantized = OCTAVO_TRY(take_quantized(module, rows, cols));
    return pack_quantized(measures() ? quantized : quant::decode(quantized));
  }
  const Tensor tensor = OCTAVO_TRY(take_plain(hf_name, {rows, cols}));
  const ops::DecodeRowFn decode = ops::decode_row_fn(tensor.dtype);
  if (decode == nullptr) {
    return unsupported(format("{}: tensor '{}' is a matrix of {}", checkpoint_.path(), tensor.name,
                              dtype_traits(tensor.dtype).name));
  }
  const OwnedMatrix result(tensor, DType::kF32, rows, cols);
  decode(tensor.data, reinterpret_cast<float*>(result.bytes->data()), rows * cols);
  return pack(result.tensor);
}

Result<std::vector<ops::Weight>> WeightLoader::matrix_parts(std::string_view hf_name,
                                                            std::span<const int64_t> rows,
                                                            int64_t cols) {
  int64_t total = 0;
  for (const int64_t part : rows) total += part;
  std::vector<ops::Weight> parts;
  int64_t begin = 0;
  if (const std::string module = quantized_module(hf_name); !module.empty()) {
    const auto quantized = OCTAVO_TRY(take_quantized(module, total, cols));
    for (const int64_t part : rows) {
      parts.push_back(OCTAVO_TRY(pack_quantized(quant::slice_rows(quantized, begin, part))));
      begin += part;
    }
    return parts;
  }
  const Tensor tensor = OCTAVO_TRY(take_plain(hf_name, {total, cols}));
  for (const int64_t part : rows) {
    parts.push_back(OCTAVO_TRY(pack(slice_rows(tensor, begin, part, cols))));
    begin += part;
  }
  return parts;
}

Result<std::vector<ops::Weight>> WeightLoader::matrix_stack(std::string_view hf_name, int64_t count,
                                                            int64_t rows, int64_t cols) {
  const Tensor tensor = OCTAVO_TRY(take_plain(hf_name, {count, rows, cols}));
  std::vector<ops::Weight> stack;
  for (int64_t i = 0; i < count; ++i) {
    stack.push_back(OCTAVO_TRY(pack(slice_rows(tensor, i * rows, rows, cols))));
  }
  return stack;
}

Result<std::vector<std::vector<ops::Weight>>> WeightLoader::transposed_stack(
    std::string_view hf_name, int64_t count, std::span<const int64_t> rows, int64_t cols) {
  int64_t total = 0;
  for (const int64_t part : rows) total += part;
  const Tensor tensor = OCTAVO_TRY(take_plain(hf_name, {count, cols, total}));
  const DTypeTraits& traits = dtype_traits(tensor.dtype);
  if (traits.quantized || (traits.block_bytes != 2 && traits.block_bytes != 4)) {
    return unsupported(
        format("{}: tensor '{}' is a stack of {}: octavo reads quantised experts "
               "one by one only",
               checkpoint_.path(), tensor.name, traits.name));
  }
  std::vector<std::vector<ops::Weight>> stacks(rows.size());
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* src = tensor.data + dtype_bytes(tensor.dtype, i * cols * total);
    int64_t begin = 0;
    for (size_t part = 0; part < rows.size(); ++part) {
      const Tensor matrix =
          !measures() ? transposed_columns(tensor, src, begin, rows[part], cols, total)
                      : Tensor{tensor.name, tensor.dtype, {rows[part], cols}, src, tensor.owner};
      stacks[part].push_back(OCTAVO_TRY(pack(matrix)));
      begin += rows[part];
    }
  }
  return stacks;
}

Result<std::vector<float>> WeightLoader::host_vector(std::string_view hf_name, int64_t count) {
  const Tensor tensor = OCTAVO_TRY(take_plain(hf_name, {count}));
  const ops::DecodeRowFn decode = ops::decode_row_fn(tensor.dtype);
  if (decode == nullptr) {
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

Result<Buffer> WeightLoader::norm(std::string_view hf_name, int64_t count) {
  std::vector<float> values = OCTAVO_TRY(host_vector(hf_name, count));
  if (config_.traits.norms_plus_one) {
    for (float& value : values) value += 1;
  }
  return upload(values, hf_name);
}

Result<Buffer> WeightLoader::upload(const std::vector<float>& values, std::string_view what) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  Buffer buffer = OCTAVO_TRY(device().allocate(bytes, what));
  device().copy_to_device(buffer.data.get(), values.data(), bytes);
  if (counts_packed_) totals_.weight_bytes += bytes;
  return buffer;
}

// Why a tensor that nobody took may stay behind; "" where it may not. Of a part of the model that
// is not run: its prefix.
std::string_view WeightLoader::why_redundant(std::string_view name) const {
  if (is_gguf()) return "";
  for (const std::string_view prefix : architecture_.skipped) {
    if (!prefix.empty() && name.starts_with(prefix)) return prefix;
  }
  if (name.ends_with(".rotary_emb.inv_freq")) return "frequencies, which are computed";
  if (config_.tie_word_embeddings && name == file_name("lm_head.weight")) {
    return "a head that repeats the embedding";
  }
  if (config_.quantization != nullptr && quant::is_kv_cache_scale(name)) {
    return "scales of a KV cache in 8 bits";
  }
  return "";
}

Status WeightLoader::finish() const {
  std::map<std::string_view, int64_t> redundant;
  int64_t num_unknown = 0;
  std::string first_unknown;
  for (const formats::TensorInfo& info : checkpoint_.tensors()) {
    if (taken_.contains(info.name)) continue;
    const std::string_view why = why_redundant(info.name);
    if (!why.empty()) {
      ++redundant[why];
    } else if (num_unknown++ == 0) {
      first_unknown = info.name;
    }
  }
  if (num_unknown > 0) {
    return data_loss(format("{}: {} tensor{} that this architecture does not use, first '{}'",
                            checkpoint_.path(), num_unknown, num_unknown == 1 ? "" : "s",
                            first_unknown));
  }
  if (redundant.empty()) return {};
  // That a part of the model is missing is for everybody to know, a repeated matrix is not.
  LogLevel level = LogLevel::kInfo;
  std::string list;
  for (const auto& [why, count] : redundant) {
    const bool part = why.ends_with('.');
    if (part) level = LogLevel::kWarning;
    list += format("{}{} {}{}{}", list.empty() ? "" : ", ", count, part ? "of the part '" : "(",
                   why, part ? "'" : ")");
  }
  log_line(level, format("{}: tensors that are not used: {}", checkpoint_.path(), list));
  return {};
}

}  // namespace octavo::model
