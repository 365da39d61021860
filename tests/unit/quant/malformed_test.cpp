// Configurations and tensors that are wrong or that octavo does not compute: each an error that
// names the key or the tensor.
#include <gtest/gtest.h>

#include "unit/quant/damage.h"

namespace octavo::quant {
namespace {

using testing::Damage;
using testing::expect_error;
using testing::holding;
using testing::kInfinity;
using testing::kNan;
using testing::lacks;
using testing::MemorySource;
using testing::shaped;
using testing::typed;

struct ConfigCase {
  const char* name;
  const char* config;
  const char* says;
};

const ConfigCase kConfigs[] = {
    {"no_object", "[]", "must be an object"},
    {"no_method", "{}",
     "'quant_method' is absent; octavo computes 'fp8', 'fbgemm_fp8', 'compressed"},
    {"method", R"({"quant_method":"bitsandbytes"})", "'quant_method' is \"bitsandbytes\""},
    {"method_type", R"({"quant_method":4})", "quant_method"},
    {"modelopt", R"({"quant_method":"modelopt","quant_algo":"NVFP4"})", "modelopt"},
    {"fbgemm_limit", R"({"quant_method":"fbgemm_fp8","activation_scale_ub":-1})",
     "'activation_scale_ub' is -1; octavo computes positive ones"},
    {"fbgemm_zero", R"({"quant_method":"fbgemm_fp8","activation_scale_ub":0})",
     "'activation_scale_ub' is 0"},
    {"fbgemm_type", R"({"quant_method":"fbgemm_fp8","activation_scale_ub":"1200"})",
     "'activation_scale_ub'"},
    {"fbgemm_modules", R"({"quant_method":"fbgemm_fp8","modules_to_not_convert":[1]})",
     "'modules_to_not_convert' must hold strings"},
    {"awq_bits", R"({"quant_method":"awq","bits":3})", "'bits' is 3; octavo computes 4"},
    {"awq_no_bits", R"({"quant_method":"awq"})", "bits"},
    {"awq_version", R"({"quant_method":"awq","bits":4,"version":"gemv"})", "'version'"},
    {"awq_zero_point", R"({"quant_method":"awq","bits":4,"zero_point":false})", "'zero_point'"},
    {"awq_group", R"({"quant_method":"awq","bits":4,"group_size":0})", "'group_size' is 0"},
    {"awq_group_negative", R"({"quant_method":"awq","bits":4,"group_size":-2})", "'group_size'"},
    {"awq_excluded", R"({"quant_method":"awq","bits":4,"modules_to_not_convert":[1]})",
     "'modules_to_not_convert' must hold strings"},
    {"gptq_bits", R"({"quant_method":"gptq","bits":2})", "'bits' is 2; octavo computes 4 and 8"},
    {"gptq_format", R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})",
     "'checkpoint_format' is \"marlin\""},
    {"gptq_marlin", R"({"quant_method":"gptq","bits":4,"is_marlin_format":true})",
     "'is_marlin_format'"},
    {"gptq_dynamic", R"({"quant_method":"gptq","bits":4,"dynamic":{"-:.*down.*":{}}})",
     "'dynamic'"},
    {"gptq_pack", R"({"quant_method":"gptq","bits":4,"pack_dtype":"int16"})", "'pack_dtype'"},
    {"gptq_sym", R"({"quant_method":"gptq","bits":4,"sym":"yes"})", "sym"},
    {"fp8_scheme", R"({"quant_method":"fp8","activation_scheme":"none"})", "'activation_scheme'"},
    {"fp8_static_blocks",
     R"({"quant_method":"fp8","activation_scheme":"static","weight_block_size":[128,128]})",
     "'activation_scheme' is \"static\""},
    {"fp8_fmt", R"({"quant_method":"fp8","fmt":"e5m2"})", "'fmt' is \"e5m2\""},
    {"fp8_scale_fmt", R"({"quant_method":"fp8","scale_fmt":"ue8m0"})", "'scale_fmt'"},
    {"fp8_block", R"({"quant_method":"fp8","weight_block_size":[128]})", "'weight_block_size'"},
    {"fp8_block_zero", R"({"quant_method":"fp8","weight_block_size":[0,128]})",
     "'weight_block_size'"},
    {"fp8_block_type", R"({"quant_method":"fp8","weight_block_size":"128"})", "weight_block_size"},
};

// Of compressed-tensors: what is inside of a group, beside its targets.
const ConfigCase kGroups[] = {
    {"nothing", "", "'weights' is absent"},
    {"no_weights", R"("weights":null)", "'weights' is absent"},
    {"weights_type", R"("weights":[])", "'weights' must be an object"},
    {"int8_weights", R"("weights":{"num_bits":8,"type":"int"},"format":"int-quantized")",
     "'int-quantized'"},
    {"nvfp4", R"("weights":{"num_bits":4,"type":"float"},"format":"nvfp4-pack-quantized")",
     "'nvfp4-pack-quantized'"},
    {"float4", R"("weights":{"num_bits":4,"type":"float"})", "'num_bits' is 4"},
    {"asymmetric", R"("weights":{"num_bits":8,"type":"float","symmetric":false})",
     "weights: 'symmetric' is false"},
    {"strategy", R"("weights":{"num_bits":8,"type":"float","strategy":"tensor_group"})",
     "'strategy'"},
    {"dynamic", R"("weights":{"num_bits":8,"type":"float","dynamic":true})", "'dynamic' is true"},
    {"no_block", R"("weights":{"num_bits":8,"type":"float","strategy":"block"})",
     "'block_structure' is absent"},
    {"input_bits",
     R"("weights":{"num_bits":8,"type":"float"},"input_activations":{"num_bits":4,"type":"float"})",
     "input_activations: 'num_bits' is 4"},
    {"input_type",
     R"("weights":{"num_bits":8,"type":"float"},"input_activations":{"num_bits":8,"type":"int"})",
     "input_activations: 'type' is \"int\""},
    {"input_dynamic_tensor",
     R"("weights":{"num_bits":8,"type":"float"},
        "input_activations":{"num_bits":8,"type":"float","dynamic":true,"strategy":"tensor"})",
     "input_activations: 'strategy'"},
    {"outputs", R"("weights":{"num_bits":8,"type":"float"},"output_activations":{"num_bits":8})",
     "'output_activations'"},
    {"packed_bits", R"("weights":{"num_bits":2,"type":"int"},"format":"pack-quantized")",
     "'num_bits' is 2"},
    {"packed_inputs",
     R"("weights":{"num_bits":4,"strategy":"channel"},"format":"pack-quantized",
        "input_activations":{"num_bits":8})",
     "'input_activations'"},
};

TEST(MalformedSchemes, Configurations) {
  const auto expect = [](const char* name, const std::string& config, const char* says) {
    const auto scheme = read_scheme(parse_json(config, "test").value(), "config.json");
    ASSERT_FALSE(scheme.ok()) << name;
    const std::string& message = scheme.status().message();
    EXPECT_NE(message.find(says), std::string::npos) << name << ": " << message;
    EXPECT_TRUE(message.starts_with("config.json")) << message;
  };
  for (const ConfigCase& row : kConfigs) expect(row.name, row.config, row.says);
  const std::string start = R"({"quant_method":"compressed-tensors","format":"float-quantized")";
  for (const ConfigCase& row : kGroups) {
    const std::string comma = *row.config == '\0' ? "" : ",";
    expect(row.name,
           start + R"(,"config_groups":{"g":{"targets":["Linear"])" + comma + row.config + "}}}",
           row.says);
  }
  const std::string group = R"(,"config_groups":{"g":{"targets":["Linear"],
      "weights":{"num_bits":8,"type":"float"}}})";
  ASSERT_TRUE(read_scheme(parse_json(start + group + "}", "test").value(), "config.json").ok());
  expect("no_groups", start + "}", "'config_groups' must be");
  expect("empty_groups", start + R"(,"config_groups":{}})", "'config_groups' must be");
  expect("preset", start + R"(,"config_groups":{"FP8":["Linear"]}})", "FP8: must be an object");
  expect("sparsity", start + group + R"(,"sparsity_config":{"format":"sparse-24-bitmask"}})",
         "'sparsity_config'");
  expect("transforms", start + group + R"(,"transform_config":{"u":{}}})", "'transform_config'");
  expect("status", start + group + R"(,"quantization_status":"frozen"})", "'quantization_status'");
  expect("pattern", start + group + R"(,"ignore":["re:a{2}"]})", "config.json: ignore: ");
}

enum class Kind { kGptq, kAwq, kPacked, kTensor, kChannel, kFbgemm, kBlock };

// A linear [16, 64] without faults.
MemorySource linear(Kind kind) {
  MemorySource source;
  const std::vector<int32_t> words(128, 0x77777777);
  const std::vector<float> scales(32, 0.5f);
  const std::vector<uint8_t> codes(16 * 64, 0x38);
  if (kind == Kind::kGptq) {
    source.add("m.qweight", DType::kI32, {8, 16}, words);
    source.add("m.qzeros", DType::kI32, {2, 2}, std::vector<int32_t>(4, 0x77777777));
    source.add("m.scales", DType::kF32, {2, 16}, scales);
    std::vector<int32_t> groups(64);
    for (int i = 0; i < 64; ++i) groups[i] = i % 2;
    source.add("m.g_idx", DType::kI32, {64}, groups);
  } else if (kind == Kind::kAwq) {
    source.add("m.qweight", DType::kI32, {64, 2}, words);
    source.add("m.qzeros", DType::kI32, {2, 2}, std::vector<int32_t>(4, 0x77777777));
    source.add("m.scales", DType::kF32, {2, 16}, scales);
  } else if (kind == Kind::kPacked) {
    source.add("m.weight_packed", DType::kI32, {16, 8}, words);
    source.add("m.weight_scale", DType::kF32, {16, 2}, scales);
    source.add("m.weight_zero_point", DType::kI32, {2, 2}, std::vector<int32_t>(4, 0x77777777));
    source.add("m.weight_shape", DType::kI64, {2}, std::vector<int64_t>{16, 64});
  } else {
    source.add("m.weight", DType::kF8E4M3, {16, 64}, codes);
    const std::vector<float> one = {0.5f};
    source.add("m.input_scale", DType::kF32, {}, one);
    if (kind == Kind::kTensor) source.add("m.weight_scale", DType::kF32, {}, one);
    if (kind == Kind::kChannel || kind == Kind::kFbgemm) {
      source.add("m.weight_scale", DType::kF32, {16, 1}, std::vector<float>(16, 0.5f));
    }
    if (kind == Kind::kBlock) {
      source.add("m.weight_scale_inv", DType::kF32, {2, 3}, std::vector<float>(6, 0.5f));
    }
  }
  return source;
}

const char* config_of(Kind kind) {
  switch (kind) {
    case Kind::kGptq:
      return R"({"quant_method":"gptq","bits":4,"group_size":32,"sym":true,"desc_act":true})";
    case Kind::kAwq:
      return R"({"quant_method":"awq","bits":4,"group_size":32})";
    case Kind::kPacked:
      return R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":
        {"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","symmetric":false,
        "strategy":"group","group_size":32}}}})";
    case Kind::kTensor:
      return R"({"quant_method":"fp8","activation_scheme":"static"})";
    case Kind::kChannel:
      return R"({"quant_method":"compressed-tensors","format":"float-quantized","config_groups":
        {"g":{"targets":["Linear"],
        "weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})";
    case Kind::kFbgemm:
      return R"({"quant_method":"fbgemm_fp8","activation_scale_ub":1200.0})";
    case Kind::kBlock:
      return R"({"quant_method":"fp8","weight_block_size":[8,24]})";
  }
  return "";
}

struct TensorCase {
  const char* name;
  Kind kind;
  Damage spoil;
  const char* says;
};

const TensorCase kTensors[] = {
    {"gptq zeros", Kind::kGptq, lacks("m.qzeros"), "'m.qzeros' is missing"},
    {"gptq scales", Kind::kGptq, lacks("m.scales"), "'m.scales' is missing"},
    {"gptq index", Kind::kGptq, lacks("m.g_idx"), "'m.g_idx' is missing"},
    {"gptq shape", Kind::kGptq, shaped("m.qweight", {16, 8}), "'m.qweight' has shape"},
    {"gptq zeros shape", Kind::kGptq, shaped("m.qzeros", {1, 4}), "'m.qzeros' has shape"},
    {"gptq type", Kind::kGptq, typed("m.qweight", DType::kF32), "'m.qweight' is float32"},
    {"gptq NaN", Kind::kGptq, holding("m.scales", 7, kNan), "'m.scales' holds nan at 7"},
    {"gptq scale type", Kind::kGptq, typed("m.scales", DType::kI32), "'m.scales' is int32"},
    {"gptq index too large", Kind::kGptq, holding("m.g_idx", 3, 2), "'m.g_idx' holds 2 at 3"},
    {"gptq index negative", Kind::kGptq, holding("m.g_idx", 3, -1), "'m.g_idx' holds -1 at 3"},
    {"gptq index uneven", Kind::kGptq, holding("m.g_idx", 3, 0), "puts 33 columns into group 0"},
    {"gptq index type", Kind::kGptq, typed("m.g_idx", DType::kF32), "'m.g_idx' is float32"},
    {"gptq version", Kind::kGptq, holding("m.qzeros", 1, 0x77787777), "the zero point 9"},
    {"awq zeros", Kind::kAwq, lacks("m.qzeros"), "'m.qzeros' is missing"},
    {"awq shape", Kind::kAwq, shaped("m.qweight", {32, 4}), "'m.qweight' has shape"},
    {"awq infinity", Kind::kAwq, holding("m.scales", 0, kInfinity), "'m.scales' holds inf at 0"},
    {"packed zeros", Kind::kPacked, lacks("m.weight_zero_point"), "point' is missing"},
    {"packed no shape", Kind::kPacked, lacks("m.weight_shape"), "'m.weight_shape' is missing"},
    {"packed scales", Kind::kPacked, lacks("m.weight_scale"), "'m.weight_scale' is missing"},
    {"packed shape", Kind::kPacked, holding("m.weight_shape", 1, int64_t{65}), "says [16, 65]"},
    {"packed shape type", Kind::kPacked, typed("m.weight_shape", DType::kF64), "says [-1, -1]"},
    {"fp8 scale", Kind::kTensor, lacks("m.weight_scale"), "'m.weight_scale' is missing"},
    {"fp8 codes", Kind::kTensor, lacks("m.weight"), "'m.weight' is missing"},
    {"fp8 input scale", Kind::kTensor, lacks("m.input_scale"), "'m.input_scale' is missing"},
    {"fp8 NaN", Kind::kTensor, holding("m.weight_scale", 0, kNan), "'m.weight_scale' holds nan"},
    {"fp8 input zero", Kind::kTensor, holding("m.input_scale", 0, 0.0f), "must be positive"},
    {"fp8 input negative", Kind::kTensor, holding("m.input_scale", 0, -1.0f), "must be positive"},
    {"fp8 type", Kind::kTensor, typed("m.weight", DType::kF8E5M2), "'m.weight' is float8_e5m2"},
    {"fp8 channels", Kind::kChannel, shaped("m.weight_scale", {8, 2}), "'m.weight_scale' has"},
    {"fp8 blocks", Kind::kBlock, shaped("m.weight_scale_inv", {3, 2}), "_inv' has shape [3, 2]"},
    {"fp8 no blocks", Kind::kBlock, lacks("m.weight_scale_inv"), "_inv' is missing"},
    {"fp8 scale zero", Kind::kTensor, holding("m.weight_scale", 0, 0.0f), "holds 0, which must"},
    {"fp8 scale negative", Kind::kTensor, holding("m.weight_scale", 0, -2.0f), "'m.weight_scale'"},
    {"fp8 scale type", Kind::kTensor, typed("m.weight_scale", DType::kI32), "_scale' is int32"},
    {"fp8 two scales", Kind::kTensor, shaped("m.weight_scale", {2}), "_scale' has shape [2]"},
    {"fp8 transposed", Kind::kTensor, shaped("m.weight", {64, 16}), "'m.weight' has shape"},
    {"fp8 input NaN", Kind::kTensor, holding("m.input_scale", 0, kNan), "_scale' holds nan"},
    {"fp8 input type", Kind::kTensor, typed("m.input_scale", DType::kI32), "_scale' is int32"},
    {"fp8 input shape", Kind::kTensor, shaped("m.input_scale", {16}), "_scale' has shape [16]"},
    {"channel NaN", Kind::kChannel, holding("m.weight_scale", 3, kNan), "holds nan at 3"},
    {"channel transposed", Kind::kChannel, shaped("m.weight_scale", {1, 16}), "shape [1, 16]"},
    {"channel flat", Kind::kChannel, shaped("m.weight_scale", {64}), "_scale' has shape [64]"},
    {"channel codes", Kind::kChannel, typed("m.weight", DType::kI8), "'m.weight' is int8"},
    {"blocks infinite", Kind::kBlock, holding("m.weight_scale_inv", 5, kInfinity), "inf at 5"},
    {"blocks type", Kind::kBlock, typed("m.weight_scale_inv", DType::kU8), "_inv' is uint8"},
    {"blocks flat", Kind::kBlock, shaped("m.weight_scale_inv", {6}), "_inv' has shape [6]"},
    {"fbgemm scale", Kind::kFbgemm, lacks("m.weight_scale"), "'m.weight_scale' is missing"},
    {"fbgemm codes", Kind::kFbgemm, lacks("m.weight"), "'m.weight' is missing"},
    {"fbgemm NaN", Kind::kFbgemm, holding("m.weight_scale", 15, kNan), "holds nan at 15"},
    {"fbgemm columns", Kind::kFbgemm, shaped("m.weight_scale", {64, 1}), "shape [64, 1]"},
    {"fbgemm type", Kind::kFbgemm, typed("m.weight", DType::kF16), "'m.weight' is float16"},
    {"fbgemm stacked", Kind::kFbgemm, shaped("m.weight", {1, 16, 64}), "'m.weight' has shape"},
    {"gptq transposed scales", Kind::kGptq, shaped("m.scales", {16, 2}), "'m.scales' has shape"},
    {"gptq infinity", Kind::kGptq, holding("m.scales", 31, kInfinity), "holds inf at 31"},
    {"gptq index shape", Kind::kGptq, shaped("m.g_idx", {32}), "'m.g_idx' has shape [32]"},
    {"gptq zeros type", Kind::kGptq, typed("m.qzeros", DType::kF32), "'m.qzeros' is float32"},
    {"awq scales", Kind::kAwq, lacks("m.scales"), "'m.scales' is missing"},
    {"awq transposed scales", Kind::kAwq, shaped("m.scales", {16, 2}), "'m.scales' has shape"},
    {"awq scale type", Kind::kAwq, typed("m.scales", DType::kI64), "'m.scales' is int64"},
    {"awq NaN", Kind::kAwq, holding("m.scales", 9, kNan), "'m.scales' holds nan at 9"},
    {"awq zeros type", Kind::kAwq, typed("m.qzeros", DType::kF32), "'m.qzeros' is float32"},
    {"awq zeros shape", Kind::kAwq, shaped("m.qzeros", {2, 16}), "'m.qzeros' has shape [2, 16]"},
    {"awq type", Kind::kAwq, typed("m.qweight", DType::kF32), "'m.qweight' is float32"},
    {"packed transposed", Kind::kPacked, shaped("m.weight_packed", {8, 16}), "_packed' has shape"},
    {"packed type", Kind::kPacked, typed("m.weight_packed", DType::kF32), "_packed' is float32"},
    {"packed NaN", Kind::kPacked, holding("m.weight_scale", 1, kNan), "'m.weight_scale' holds nan"},
    {"packed scale shape", Kind::kPacked, shaped("m.weight_scale", {2, 16}), "_scale' has shape"},
    {"packed zero type", Kind::kPacked, typed("m.weight_zero_point", DType::kF32), "is float32"},
    {"packed size", Kind::kPacked, shaped("m.weight_shape", {1, 2}), "_shape' has shape [1, 2]"},
};

TEST(MalformedSchemes, Tensors) {
  for (const Kind kind : {Kind::kGptq, Kind::kAwq, Kind::kPacked, Kind::kTensor, Kind::kChannel,
                          Kind::kFbgemm, Kind::kBlock}) {
    MemorySource source = linear(kind);
    const auto scheme = read_scheme(parse_json(config_of(kind), "test").value(), "test").value();
    const auto loaded = scheme->load(source, "m", 16, 64);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  }
  for (const TensorCase& row : kTensors) {
    SCOPED_TRACE(row.name);
    MemorySource source = linear(row.kind);
    row.spoil(source);
    const auto scheme =
        read_scheme(parse_json(config_of(row.kind), "test").value(), "test").value();
    ASSERT_TRUE(scheme->holds(source, "m"));
    expect_error(scheme->load(source, "m", 16, 64), row.says);
  }
}

TEST(MalformedSchemes, SizesThatGroupsAndWordsDoNotDivide) {
  struct Size {
    Kind kind;
    int64_t rows, cols;
    const char* says;
  };
  for (const Size& size : {Size{Kind::kGptq, 16, 48, "'m': rows of 48 values are not whole groups"},
                           Size{Kind::kGptq, 12, 64, "are not whole words"},
                           Size{Kind::kAwq, 12, 64, "are not whole words"},
                           Size{Kind::kAwq, 16, 80, "are not whole groups"},
                           Size{Kind::kPacked, 16, 80, "are not whole groups"}}) {
    MemorySource source = linear(size.kind);
    const auto scheme =
        read_scheme(parse_json(config_of(size.kind), "test").value(), "test").value();
    expect_error(scheme->load(source, "m", size.rows, size.cols), size.says);
  }
}

// What the configuration excludes is not looked for, nor is what the file holds as it is.
TEST(Schemes, ModulesThatAreLeftAlone) {
  MemorySource source;
  for (const char* module : {"a.mlp.gate", "a.mlp.gate_proj", "lm_head"}) {
    source.add(format("{}.weight", module), DType::kF8E4M3, {1, 1}, std::vector<uint8_t>{0x38});
    source.add(format("{}.qweight", module), DType::kI32, {1, 1}, std::vector<int32_t>{0});
  }
  source.add("plain.weight", DType::kF32, {1, 1}, std::vector<float>{1});
  const auto holds = [&](const char* config, const char* module) {
    return read_scheme(parse_json(config, "test").value(), "test").value()->holds(source, module);
  };
  const char* fp8 = R"({"quant_method":"fp8","ignored_layers":["lm_head"],
                        "modules_to_not_convert":["mlp.gate"]})";
  const char* awq =
      R"({"quant_method":"awq","bits":4,"modules_to_not_convert":["gate","lm_head"]})";
  const char* listed = R"({"quant_method":"compressed-tensors","format":"float-quantized",
      "ignore":["lm_head","re:.*mlp\\.gate$"],"config_groups":{"g":{"targets":["re:.*gate.*"],
      "weights":{"num_bits":8,"type":"float"}},"h":{"targets":["lm_head"],
      "weights":{"num_bits":8,"type":"float"}}}})";
  for (const char* config : {fp8, awq, listed}) {
    EXPECT_TRUE(holds(config, "a.mlp.gate_proj")) << config;
    EXPECT_FALSE(holds(config, "a.mlp.gate")) << config;
    EXPECT_FALSE(holds(config, "lm_head")) << config;
    EXPECT_FALSE(holds(config, "plain")) << config;
    EXPECT_FALSE(holds(config, "absent")) << config;
  }
}

TEST(Schemes, GroupsOfModulesDiffer) {
  const auto scheme =
      read_scheme(parse_json(R"({"quant_method":"compressed-tensors","format":"mixed-precision",
        "config_groups":{"all":{"targets":["Linear"],"format":"pack-quantized",
        "weights":{"num_bits":4,"symmetric":false,"strategy":"group","group_size":32}},
        "some":{"targets":["re:special.*"],"format":"float-quantized",
        "weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})",
                             "test")
                      .value(),
                  "test")
          .value();
  MemorySource packed = linear(Kind::kPacked);
  EXPECT_EQ(scheme->load(packed, "m", 16, 64)->tensor.dtype, DType::kQ5_0);
  MemorySource floats;
  floats.add("special.weight", DType::kF8E4M3, {2, 2}, std::vector<uint8_t>(4, 0x38));
  floats.add("special.weight_scale", DType::kF32, {2}, std::vector<float>{1, 2});
  const auto loaded = scheme->load(floats, "special", 2, 2).value();
  EXPECT_EQ(loaded.tensor.dtype, DType::kF8E4M3);
  EXPECT_EQ(loaded.scales, (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace octavo::quant
