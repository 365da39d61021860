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
#include "quant/scaled_blocks.h"

namespace octavo::model {
namespace {

// `tensor`, rows of a stack's matrices from the first-th of all on, with their scales.
quant::QuantizedMatrix part_of(const quant::QuantizedStack& stack, Tensor tensor, int64_t first) {
  quant::QuantizedMatrix matrix;
  if (!stack.scales.empty()) {
    const auto begin = stack.scales.begin() + first;
    matrix.scales.assign(begin, begin + tensor.shape[0]);
  }
  matrix.tensor = std::move(tensor);
  matrix.scale_block = stack.scale_block;
  matrix.input = stack.input;
  return matrix;
}

// A weight of this form, without data.
ops::Weight form_of(const quant::QuantizedMatrix& matrix) {
  ops::Weight form;
  form.dtype = matrix.tensor.dtype;
  form.rows = matrix.tensor.shape[0];
  form.cols = matrix.tensor.shape[1];
  form.scale_block = matrix.scale_block;
  form.group = matrix.group;
  form.input = matrix.input;
  return form;
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

// In the checkpoint's scheme, or plain values of another shape.
Result<quant::QuantizedStack> WeightLoader::take_stack(std::string_view hf_name, int64_t count,
                                                       int64_t rows, int64_t cols,
                                                       const Shape& plain_shape) {
  if (config_.quantization != nullptr) {
    auto stack =
        OCTAVO_TRY(config_.quantization->load_stack(*this, file_name(hf_name), count, rows, cols));
    if (stack.has_value()) {
      const int64_t num_scales = stack->scale_block == 0 ? 0 : count * rows;
      count_stored(stack->tensor.count(),
                   stack->tensor.size_bytes() + num_scales * static_cast<int64_t>(sizeof(float)));
      return std::move(*stack);
    }
  }
  quant::QuantizedStack stack;
  stack.tensor = OCTAVO_TRY(take_plain(hf_name, plain_shape));
  return stack;
}

Result<ops::Weight> WeightLoader::pack(const Tensor& tensor, std::span<const int64_t> source_rows) {
  auto weight = ops_.pack_weight(ops_, packing_, tensor, source_rows);
  if (!weight.ok()) return at_path(weight.status());
  count_packed(*weight, tensor);
  return weight;
}

void WeightLoader::count_packed(const ops::Weight& weight, const Tensor& tensor) {
  if (weight.owner != tensor.owner) give_back(tensor);
  if (counts_packed_) totals_.weight_bytes += weight.size_bytes();
}

Status WeightLoader::at_path(const Status& status) const {
  return Status(status.code(), format("{}: {}", checkpoint_.path(), status.message()));
}

Result<ops::Weight> WeightLoader::pack_quantized(const quant::QuantizedMatrix& stored) {
  bool has_kernel = ops_.linear_by_dtype[static_cast<int>(stored.tensor.dtype)] != nullptr;
  std::optional<ops::Weight> codes;
  if (ops_.pack_codes != nullptr) {
    auto packed = ops_.pack_codes(ops_, packing_, stored.tensor, form_of(stored));
    if (!packed.ok()) return at_path(packed.status());
    codes = std::move(packed).value();
    has_kernel = codes.has_value();
    const bool quantized = stored.scale_block > 0 || dtype_traits(stored.tensor.dtype).quantized;
    if (quantized) ++(has_kernel ? num_as_codes_ : num_as_values_);
  }
  const bool has_codes = codes.has_value();
  // A backend that cannot compute with the codes gets the values, which have no scales.
  const bool as_values = !has_kernel && !stored.scales.empty() && !measures();
  const quant::QuantizedMatrix matrix = as_values ? quant::decode(stored) : stored;
  ops::Weight weight;
  if (has_codes) {
    weight = *std::move(codes);
    count_packed(weight, matrix.tensor);
  } else {
    weight = OCTAVO_TRY(pack(matrix.tensor));
    weight.input = matrix.input;
  }
  weight.scale_block = matrix.scale_block;
  if (measures() && counts_packed_ && has_codes) {
    totals_.weight_bytes += weight.rows * weight.scales_per_row() * int64_t{sizeof(float)};
  }
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
    return measures() ? pack(quantized.tensor) : pack_quantized(quant::decode(quantized));
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
  const auto stack = OCTAVO_TRY(take_stack(hf_name, count, rows, cols, {count, rows, cols}));
  std::vector<ops::Weight> matrices;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor matrix = slice_rows(stack.tensor, i * rows, rows, cols);
    matrices.push_back(OCTAVO_TRY(pack_quantized(part_of(stack, matrix, i * rows))));
  }
  return matrices;
}

Result<std::vector<std::vector<ops::Weight>>> WeightLoader::transposed_stack(
    std::string_view hf_name, int64_t count, std::span<const int64_t> rows, int64_t cols) {
  int64_t total = 0;
  for (const int64_t part : rows) total += part;
  const auto stack = OCTAVO_TRY(take_stack(hf_name, count, total, cols, {count, cols, total}));
  const Tensor& tensor = stack.tensor;
  // Codes without scales are not what they seem.
  const bool plain = stack.scale_block == 0;
  if (!can_transpose(tensor.dtype) || (plain && dtype_bytes(tensor.dtype, 1) == 1)) {
    return unsupported(
        format("{}: tensor '{}' is a stack of {}, which octavo does not read in this scheme; it "
               "reads E4M3 with a scale for each channel, and quantised experts one by one",
               checkpoint_.path(), tensor.name, dtype_traits(tensor.dtype).name));
  }
  std::vector<std::vector<ops::Weight>> stacks(rows.size());
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* src = tensor.data + dtype_bytes(tensor.dtype, i * cols * total);
    int64_t begin = 0;
    for (size_t part = 0; part < rows.size(); ++part) {
      const Tensor matrix =
          !measures() ? transposed_columns(tensor, src, begin, rows[part], cols, total)
                      : Tensor{tensor.name, tensor.dtype, {rows[part], cols}, src, tensor.owner};
      stacks[part].push_back(OCTAVO_TRY(pack_quantized(part_of(stack, matrix, i * total + begin))));
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
  if (is_gguf()) {
    const bool rounds = config_.quantization != nullptr && quant::is_input_scale(name);
    return rounds ? "scales of activations in 4 bits" : "";
  }
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

void WeightLoader::log_held() const {
  if (measures() || num_as_codes_ + num_as_values_ == 0) return;
  log_info("{}: of the quantised matrices {} stay as stored, {} are decoded to bfloat16",
           checkpoint_.path(), num_as_codes_, num_as_values_);
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
  log_held();
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
