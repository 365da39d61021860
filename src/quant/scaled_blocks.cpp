#include "quant/scaled_blocks.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "quant/float_values.h"

namespace octavo::quant {
namespace {

constexpr DType kBlocks = DType::kNVFP4;
constexpr std::string_view kWeight = ".weight";

std::string scale_of(std::string_view module) {
  return format("{}.scale", module);
}

bool is_scaled(const TensorSource& source, std::string_view module) {
  const formats::TensorInfo* weight = source.find(format("{}{}", module, kWeight));
  return weight != nullptr && weight->dtype == kBlocks && source.find(scale_of(module)) != nullptr;
}

class ScaledBlocks final : public Scheme {
 public:
  std::string description() const override {
    return "nvfp4: E2M1 in groups of 16, one more scale for each matrix";
  }

  bool holds(const TensorSource& source, std::string_view module) const override {
    return is_scaled(source, module);
  }

  Result<QuantizedMatrix> load(TensorSource& source, std::string_view module, int64_t rows,
                               int64_t cols) const override {
    QuantizedMatrix matrix;
    matrix.tensor = OCTAVO_TRY(source.take(format("{}{}", module, kWeight), {rows, cols}));
    const float scale = OCTAVO_TRY(take_positive(source, scale_of(module)));
    matrix.scales.assign(source.measures() ? 0 : rows, scale);
    matrix.scale_block = cols;
    return matrix;
  }

  // [count, rows, cols]
  Result<std::optional<QuantizedStack>> load_stack(TensorSource& source, std::string_view name,
                                                   int64_t count, int64_t rows,
                                                   int64_t cols) const override {
    const std::string_view module = name.substr(0, name.size() - kWeight.size());
    if (!name.ends_with(kWeight) || !is_scaled(source, module)) {
      return std::optional<QuantizedStack>();
    }
    QuantizedStack stack;
    stack.tensor = OCTAVO_TRY(source.take(name, {count, rows, cols}));
    for (const float scale : OCTAVO_TRY(take_floats(source, scale_of(module), {count}))) {
      stack.scales.insert(stack.scales.end(), rows, scale);
    }
    stack.scale_block = cols;
    return std::optional<QuantizedStack>(std::move(stack));
  }
};

}  // namespace

std::shared_ptr<const Scheme> find_scaled_blocks(std::span<const formats::TensorInfo> tensors) {
  const bool any = std::any_of(tensors.begin(), tensors.end(),
                               [](const auto& info) { return info.dtype == kBlocks; });
  return any ? std::make_shared<const ScaledBlocks>() : nullptr;
}

bool is_input_scale(std::string_view name) {
  return name.ends_with(".input_scale");
}

}  // namespace octavo::quant
