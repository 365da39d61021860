#include "quant/fp8.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "quant/config_keys.h"
#include "quant/float_values.h"
#include "quant/module_names.h"
#include "tensor/float8.h"

namespace octavo::quant {
namespace {

int64_t blocks_of(int64_t count, int64_t block) {
  return (count + block - 1) / block;
}

// Scales [rows, blocks of `cols`], whatever has one scale in the file.
Result<std::vector<float>> take_row_scales(TensorSource& source, const std::string& name,
                                           int64_t rows, int64_t cols, const Fp8Format& fp8) {
  using Scales = Fp8Format::Scales;
  if (fp8.scales == Scales::kTensor) {
    const float scale = OCTAVO_TRY(take_positive(source, name));
    return std::vector<float>(source.measures() ? 0 : rows, scale);
  }
  if (fp8.scales == Scales::kChannel) {
    const formats::TensorInfo* info = source.find(name);
    const bool flat = info != nullptr && info->shape.size() == 1;
    return take_floats(source, name, flat ? Shape{rows} : Shape{rows, 1});
  }
  const int64_t row_blocks = blocks_of(cols, fp8.block_cols);
  if (fp8.scales == Scales::kGroup) return take_floats(source, name, {rows, row_blocks});
  const std::vector<float> grid =
      OCTAVO_TRY(take_floats(source, name, {blocks_of(rows, fp8.block_rows), row_blocks}));
  std::vector<float> scales;
  if (source.measures()) return scales;
  scales.reserve(rows * row_blocks);
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = grid.begin() + row / fp8.block_rows * row_blocks;
    scales.insert(scales.end(), begin, begin + row_blocks);
  }
  return scales;
}

// How the input of a matrix of `cols` columns is rounded, but for a fixed scale.
ops::InputForm input_form(const Fp8Format& fp8, int64_t cols) {
  ops::InputForm input;
  input.rounding = fp8.input;
  if (fp8.input != ops::InputRounding::kDynamicE4M3) return input;
  input.group = fp8.input_group == 0 ? cols : std::min(fp8.input_group, cols);
  input.scale = fp8.input_limit / kE4M3Max;
  return input;
}

// The shape of the scales of a stack: which extent is 1 differs between the projections.
Shape stack_scale_shape(const TensorSource& source, const std::string& name, int64_t count,
                        int64_t rows) {
  const formats::TensorInfo* info = source.find(name);
  for (const Shape& shape : {Shape{count, rows, 1}, Shape{count, rows}}) {
    if (info != nullptr && info->shape == shape) return shape;
  }
  return {count, 1, rows};
}

class Fp8Scheme final : public Scheme {
 public:
  Fp8Scheme(std::string_view name, Fp8Format format, std::vector<std::string> excluded)
      : name_(name), format_(format), excluded_(std::move(excluded)) {}

  std::string description() const override {
    return format("{}: {}", name_, format_.description());
  }
  bool holds(const TensorSource& source, std::string_view module) const override {
    return !name_any_module(excluded_, module) && holds_fp8(source, module, format_);
  }
  Result<QuantizedMatrix> load(TensorSource& source, std::string_view module, int64_t rows,
                               int64_t cols) const override {
    return load_fp8(source, module, rows, cols, format_);
  }
  Result<std::optional<QuantizedStack>> load_stack(TensorSource& source, std::string_view name,
                                                   int64_t count, int64_t rows,
                                                   int64_t cols) const override {
    if (name_any_module(excluded_, name)) return std::optional<QuantizedStack>();
    return load_fp8_stack(source, name, count, rows, cols, format_);
  }

 private:
  std::string_view name_;
  Fp8Format format_;
  std::vector<std::string> excluded_;
};

Status read_block_size(const ConfigKeys& keys, Fp8Format& fp8) {
  const JsonArray& size =
      *OCTAVO_TRY(json_array(keys.config(), "weight_block_size", keys.source()));
  const auto extent = [&](size_t i) { return size[i].is_int64() ? size[i].get_int64() : 0; };
  if (size.size() != 2 || extent(0) < 1 || extent(1) < 1 || extent(0) > INT32_MAX ||
      extent(1) > INT32_MAX) {
    return keys.refuse("weight_block_size", "two positive sizes");
  }
  fp8.scales = Fp8Format::Scales::kBlock;
  fp8.scale_name = "weight_scale_inv";
  fp8.block_rows = extent(0);
  fp8.block_cols = extent(1);
  fp8.input_group = fp8.block_cols;
  return {};
}

}  // namespace

std::string Fp8Format::description() const {
  std::string text = "E4M3, one scale for ";
  switch (scales) {
    case Scales::kTensor:
      text += "each matrix";
      break;
    case Scales::kChannel:
      text += "each row";
      break;
    case Scales::kGroup:
      text += format("{} values of a row", block_cols);
      break;
    case Scales::kBlock:
      text += format("{} x {} values", block_rows, block_cols);
      break;
  }
  switch (input) {
    case ops::InputRounding::kNone:
      return text + "; activations as they are";
    case ops::InputRounding::kStaticE4M3:
      return text + "; activations E4M3 by a fixed scale";
    case ops::InputRounding::kDynamicE4M3:
      return text + "; activations E4M3 by token" +
             (input_group == 0 ? "" : format(" and {} values", input_group)) +
             (input_limit == 0 ? "" : format(", within {}", input_limit));
  }
  return text;
}

bool holds_fp8(const TensorSource& source, std::string_view module, const Fp8Format& fp8) {
  const formats::TensorInfo* weight = source.find(format("{}.weight", module));
  return (weight != nullptr && weight->dtype == DType::kF8E4M3) ||
         source.find(format("{}.{}", module, fp8.scale_name)) != nullptr;
}

Result<QuantizedMatrix> load_fp8(TensorSource& source, std::string_view module, int64_t rows,
                                 int64_t cols, const Fp8Format& fp8) {
  if (fp8.scales == Fp8Format::Scales::kGroup && cols % fp8.block_cols != 0) {
    return data_loss(format("{}: '{}': rows of {} values are not whole groups of {}", source.path(),
                            module, cols, fp8.block_cols));
  }
  QuantizedMatrix result;
  result.tensor = OCTAVO_TRY(source.take(format("{}.weight", module), {rows, cols}));
  if (result.tensor.dtype != DType::kF8E4M3) {
    return wrong_type(source, result.tensor, DType::kF8E4M3);
  }
  const std::string scale_name = format("{}.{}", module, fp8.scale_name);
  result.scales = OCTAVO_TRY(take_row_scales(source, scale_name, rows, cols, fp8));
  result.scale_block = fp8.block_cols == 0 ? cols : std::min(fp8.block_cols, cols);
  result.input = input_form(fp8, cols);
  if (fp8.input == ops::InputRounding::kStaticE4M3) {
    result.input.scale = OCTAVO_TRY(take_positive(source, format("{}.input_scale", module)));
  }
  return result;
}

Result<std::optional<QuantizedStack>> load_fp8_stack(TensorSource& source, std::string_view name,
                                                     int64_t count, int64_t rows, int64_t cols,
                                                     const Fp8Format& fp8) {
  const std::string scale_name = format("{}_scale", name);
  const formats::TensorInfo* codes = source.find(name);
  const bool here =
      (codes != nullptr && codes->dtype == DType::kF8E4M3) || source.find(scale_name) != nullptr;
  const bool fixed = fp8.input == ops::InputRounding::kStaticE4M3;
  if (!here || fixed || fp8.scales != Fp8Format::Scales::kChannel) {
    return std::optional<QuantizedStack>();
  }
  QuantizedStack stack;
  stack.tensor = OCTAVO_TRY(source.take(name, {count, cols, rows}));
  if (stack.tensor.dtype != DType::kF8E4M3) {
    return wrong_type(source, stack.tensor, DType::kF8E4M3);
  }
  const Shape shape = stack_scale_shape(source, scale_name, count, rows);
  stack.scales = OCTAVO_TRY(take_floats(source, scale_name, shape));
  stack.scale_block = cols;
  stack.input = input_form(fp8, cols);
  return std::optional<QuantizedStack>(std::move(stack));
}

Result<std::unique_ptr<Scheme>> read_fp8(const Json& config, const std::string& source) {
  const ConfigKeys keys(config, source);
  constexpr std::string_view kKnown[] = {
      "quant_method",      "activation_scheme", "fmt",       "ignored_layers",
      "weight_block_size", "kv_cache_scheme",   "scale_fmt", "modules_to_not_convert"};
  keys.warn_of_others(kKnown);
  Fp8Format fp8;
  if (keys.find("weight_block_size") != nullptr) OCTAVO_TRY(read_block_size(keys, fp8));
  const std::string activations = OCTAVO_TRY(keys.text_or("activation_scheme", "dynamic"));
  if (activations == "dynamic") {
    fp8.input = ops::InputRounding::kDynamicE4M3;
  } else if (activations == "static" && fp8.scales == Fp8Format::Scales::kTensor) {
    fp8.input = ops::InputRounding::kStaticE4M3;
  } else {
    return keys.refuse("activation_scheme", "'dynamic', and 'static' without 'weight_block_size'");
  }
  const std::string fmt = OCTAVO_TRY(keys.text_or("fmt", "e4m3"));
  if (fmt != "e4m3" && fmt != "float8_e4m3fn") return keys.refuse("fmt", "'e4m3'");
  const std::string scale_fmt = OCTAVO_TRY(keys.text_or("scale_fmt", "float"));
  if (scale_fmt != "float") return keys.refuse("scale_fmt", "'float'");
  std::vector<std::string> excluded = OCTAVO_TRY(keys.texts("ignored_layers"));
  for (std::string& name : OCTAVO_TRY(keys.texts("modules_to_not_convert"))) {
    excluded.push_back(std::move(name));
  }
  return std::unique_ptr<Scheme>(std::make_unique<Fp8Scheme>("fp8", fp8, std::move(excluded)));
}

Result<std::unique_ptr<Scheme>> read_fbgemm_fp8(const Json& config, const std::string& source) {
  const ConfigKeys keys(config, source);
  constexpr std::string_view kKnown[] = {"quant_method", "activation_scale_ub", "kv_cache_scheme",
                                         "modules_to_not_convert"};
  keys.warn_of_others(kKnown);
  constexpr double kUsualLimit = 1200;
  const double limit = OCTAVO_TRY(keys.number_or("activation_scale_ub", kUsualLimit));
  Fp8Format fp8;
  fp8.scales = Fp8Format::Scales::kChannel;
  fp8.input = ops::InputRounding::kDynamicE4M3;
  fp8.input_limit = static_cast<float>(limit);
  if (!(fp8.input_limit > 0) || !std::isfinite(fp8.input_limit)) {
    return keys.refuse("activation_scale_ub", "positive ones");
  }
  std::vector<std::string> excluded = OCTAVO_TRY(keys.texts("modules_to_not_convert"));
  return std::unique_ptr<Scheme>(
      std::make_unique<Fp8Scheme>("fbgemm_fp8", fp8, std::move(excluded)));
}

}  // namespace octavo::quant
