// A backend that may want the codes of quantised matrices or their values: what it says is what it
// gets.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "formats/checkpoint.h"
#include "model/config.h"
#include "model/weights.h"
#include "tensor/float8.h"

namespace octavo::model {
namespace {

constexpr int64_t kRows = 128, kCols = 96;
constexpr const char* kName = "model.layers.0.mlp.gate_proj.weight";

Result<std::optional<ops::Weight>> take(const ops::Ops& ops, ops::PackContext& context,
                                        const Tensor& tensor, const ops::Weight& form) {
  EXPECT_EQ(form.dtype, DType::kF8E4M3);
  EXPECT_EQ(form.rows, kRows);
  EXPECT_EQ(form.cols, kCols);
  EXPECT_EQ(form.scale_block, kCols);
  EXPECT_EQ(form.input.rounding, ops::InputRounding::kDynamicE4M3);
  auto weight = ops.pack_weight(ops, context, tensor, {});
  if (!weight.ok()) return weight.status();
  weight->input = form.input;
  weight->input.by_kernel = true;
  return std::optional(*weight);
}

Result<std::optional<ops::Weight>> leave(const ops::Ops&, ops::PackContext&, const Tensor&,
                                         const ops::Weight&) {
  return std::optional<ops::Weight>();
}

Result<std::optional<ops::Weight>> refuse(const ops::Ops&, ops::PackContext&, const Tensor& tensor,
                                          const ops::Weight&) {
  return unsupported("no room for " + tensor.name);
}

class PackCodes : public ::testing::Test {
 protected:
  Result<ops::Weight> load(decltype(ops::Ops::pack_codes) pack_codes) {
    backend_.ops.pack_codes = pack_codes;
    WeightLoader loader(*checkpoint_, config_, backend_.ops, *backend_.device, nullptr, nullptr);
    return loader.matrix(kName, kRows, kCols);
  }

  std::shared_ptr<const formats::Checkpoint> checkpoint_ =
      formats::open_checkpoint(OCTAVO_TEST_DATA "/goldens/llama_fp8_channel").value();
  ModelConfig config_ = read_model_config(*checkpoint_).value();
  backends::Backend backend_ = backends::open_backend("ref", backends::Arithmetic::kAuto).value();
};

TEST_F(PackCodes, CodesStayOrBecomeTheirValues) {
  const ops::Weight codes = load(take).value();
  ASSERT_EQ(codes.dtype, DType::kF8E4M3);
  EXPECT_TRUE(codes.input.as_it_is());
  EXPECT_EQ(codes.scale_block, kCols);
  ASSERT_NE(codes.scales, nullptr);
  const ops::Weight values = load(leave).value();
  ASSERT_EQ(values.dtype, DType::kF32);
  EXPECT_EQ(values.scales, nullptr);
  EXPECT_FALSE(values.input.as_it_is());
  EXPECT_EQ(values.input.group, kCols);
  for (int64_t row = 0; row < kRows; ++row) {
    const auto* code = reinterpret_cast<const uint8_t*>(codes.row(row));
    const auto* value = reinterpret_cast<const float*>(values.row(row));
    for (int64_t i = 0; i < kCols; ++i) {
      ASSERT_EQ(value[i], e4m3_to_float(code[i]) * codes.scales[row]) << row << ", " << i;
    }
  }
}

TEST_F(PackCodes, ErrorsNameFileAndTensor) {
  const auto refused = load(refuse);
  ASSERT_FALSE(refused.ok());
  for (const char* part : {"llama_fp8_channel", kName}) {
    EXPECT_NE(refused.status().message().find(part), std::string::npos)
        << refused.status().message();
  }
}

}  // namespace
}  // namespace octavo::model
