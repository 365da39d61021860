// Integer schemes on random matrices that the test packs by the definition of each layout: all
// widths, groups, zero points and orders, the same bits as (code - zero) * scale.
#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"
#include "quant/quantized_matrix.h"
#include "support/random_blocks.h"
#include "unit/quant/memory_source.h"

namespace octavo::quant {
namespace {

using testing::MemorySource;

struct Spec {
  const char* name;
  int bits;
  int64_t rows, cols, group;  // group 0: the whole row
  bool symmetric;
  bool act_order;
  DType held;
};

// codes[row][col], zeros and scales[group][row].
struct Plain {
  explicit Plain(const Spec& spec, uint64_t seed) : rng(seed) {
    const int64_t groups = spec.group == 0 ? 1 : spec.cols / spec.group;
    const auto range = static_cast<uint64_t>(1) << spec.bits;
    group_of.resize(spec.cols);
    for (int64_t i = 0; i < spec.cols; ++i) {
      group_of[i] = static_cast<int32_t>(spec.group == 0 ? 0 : i / spec.group);
    }
    for (int64_t i = spec.cols - 1; spec.act_order && i > 0; --i) {
      std::swap(group_of[i], group_of[rng.next_u64() % (i + 1)]);
    }
    codes.resize(spec.rows, std::vector<int>(spec.cols));
    for (auto& row : codes) {
      for (int& code : row) code = static_cast<int>(rng.next_u64() % range);
    }
    zeros.resize(groups, std::vector<int>(spec.rows, 1 << (spec.bits - 1)));
    scales.resize(groups, std::vector<float>(spec.rows));
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t n = 0; n < spec.rows; ++n) {
        // 1 and up: version 1 of GPTQ cannot store a zero point of 0.
        if (!spec.symmetric) zeros[g][n] = 1 + static_cast<int>(rng.next_u64() % (range - 1));
        scales[g][n] = fp16_to_float(float_to_fp16(0.001f + 0.1f * testing::random_normal(rng)));
      }
    }
  }

  float value(int64_t row, int64_t col) const {
    const int32_t g = group_of[col];
    return static_cast<float>(codes[row][col] - zeros[g][row]) * scales[g][row];
  }

  Rng rng;
  std::vector<int32_t> group_of;
  std::vector<std::vector<int>> codes, zeros;
  std::vector<std::vector<float>> scales;
};

// code(i) for i in [0, count), `32 / bits` to a word, the last filled up with zeros.
template <typename Code>
void append_words(std::vector<int32_t>& words, int64_t count, int bits, const Code& code) {
  const int per_word = 32 / bits;
  for (int64_t begin = 0; begin < count; begin += per_word) {
    uint32_t word = 0;
    for (int64_t i = begin; i < std::min<int64_t>(begin + per_word, count); ++i) {
      word |= static_cast<uint32_t>(code(i)) << (bits * (i - begin));
    }
    words.push_back(static_cast<int32_t>(word));
  }
}

std::vector<float> flat(const std::vector<std::vector<float>>& rows) {
  std::vector<float> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  return values;
}

void add_gptq(MemorySource& source, const Spec& spec, const Plain& plain, int zero_offset) {
  const int64_t per_word = 32 / spec.bits;
  const auto groups = static_cast<int64_t>(plain.zeros.size());
  std::vector<int32_t> codes(spec.cols / per_word * spec.rows);
  for (int64_t n = 0; n < spec.rows; ++n) {
    std::vector<int32_t> column;
    append_words(column, spec.cols, spec.bits, [&](int64_t k) { return plain.codes[n][k]; });
    for (size_t i = 0; i < column.size(); ++i) codes[i * spec.rows + n] = column[i];
  }
  std::vector<int32_t> zeros;
  for (int64_t g = 0; g < groups; ++g) {
    append_words(zeros, spec.rows, spec.bits,
                 [&](int64_t n) { return plain.zeros[g][n] - zero_offset; });
  }
  source.add("m.qweight", DType::kI32, {spec.cols / per_word, spec.rows}, codes);
  source.add("m.qzeros", DType::kI32, {groups, spec.rows / per_word}, zeros);
  source.add_halves("m.scales", {groups, spec.rows}, flat(plain.scales));
  if (spec.act_order) source.add("m.g_idx", DType::kI32, {spec.cols}, plain.group_of);
}

void add_awq(MemorySource& source, const Spec& spec, const Plain& plain) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto groups = static_cast<int64_t>(plain.zeros.size());
  std::vector<int32_t> codes, zeros;
  for (int64_t k = 0; k < spec.cols; ++k) {
    append_words(codes, spec.rows, 4,
                 [&](int64_t i) { return plain.codes[i / 8 * 8 + kOrder[i % 8]][k]; });
  }
  for (int64_t g = 0; g < groups; ++g) {
    append_words(zeros, spec.rows, 4,
                 [&](int64_t i) { return plain.zeros[g][i / 8 * 8 + kOrder[i % 8]]; });
  }
  source.add("m.qweight", DType::kI32, {spec.cols, spec.rows / 8}, codes);
  source.add("m.qzeros", DType::kI32, {groups, spec.rows / 8}, zeros);
  source.add_halves("m.scales", {groups, spec.rows}, flat(plain.scales));
}

void add_packed(MemorySource& source, const Spec& spec, const Plain& plain) {
  const int64_t per_word = 32 / spec.bits;
  const auto words = [&](int64_t count) { return (count + per_word - 1) / per_word; };
  const auto groups = static_cast<int64_t>(plain.zeros.size());
  std::vector<int32_t> codes;
  std::vector<float> scales;
  for (int64_t n = 0; n < spec.rows; ++n) {
    append_words(codes, spec.cols, spec.bits, [&](int64_t k) { return plain.codes[n][k]; });
    for (int64_t g = 0; g < groups; ++g) scales.push_back(plain.scales[g][n]);
  }
  std::vector<int32_t> zeros(words(spec.rows) * groups);
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<int32_t> column;
    append_words(column, spec.rows, spec.bits, [&](int64_t n) { return plain.zeros[g][n]; });
    for (size_t i = 0; i < column.size(); ++i) zeros[i * groups + g] = column[i];
  }
  source.add("m.weight_packed", DType::kI32, {spec.rows, words(spec.cols)}, codes);
  source.add_halves("m.weight_scale", {spec.rows, groups}, scales);
  source.add("m.weight_shape", DType::kI64, {2}, std::vector<int64_t>{spec.rows, spec.cols});
  if (!spec.symmetric) {
    source.add("m.weight_zero_point", DType::kI32, {words(spec.rows), groups}, zeros);
  }
  if (spec.act_order) source.add("m.weight_g_idx", DType::kI32, {spec.cols}, plain.group_of);
}

std::shared_ptr<const Scheme> scheme_of(const std::string& config) {
  return read_scheme(parse_json(config, "test").value(), "test").value();
}

void expect_values(MemorySource& source, const Scheme& scheme, const Spec& spec,
                   const Plain& plain) {
  ASSERT_TRUE(scheme.holds(source, "m"));
  const auto loaded = scheme.load(source, "m", spec.rows, spec.cols);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->tensor.dtype, spec.held);
  EXPECT_EQ(loaded->input.rounding, ops::InputRounding::kNone);
  const QuantizedMatrix floats = decode(*loaded);
  for (int64_t n = 0; n < spec.rows; ++n) {
    for (int64_t k = 0; k < spec.cols; ++k) {
      float actual;
      std::memcpy(&actual, floats.tensor.data + (n * spec.cols + k) * sizeof(float), sizeof(float));
      const int64_t from = loaded->input_order.empty() ? k : loaded->input_order[k];
      ASSERT_EQ(actual, plain.value(n, from)) << n << ", " << k;
    }
  }
  source.set_measures(true);
  const auto measured = scheme.load(source, "m", spec.rows, spec.cols).value();
  EXPECT_EQ(measured.tensor.dtype, spec.held);
  EXPECT_EQ(measured.tensor.shape, (Shape{spec.rows, spec.cols}));
}

const Spec kGptq[] = {
    {"symmetric", 4, 24, 128, 32, true, false, DType::kQ4_0},
    {"zeros", 4, 16, 96, 32, false, false, DType::kQ5_0},
    {"act_order", 4, 16, 128, 32, false, true, DType::kQ5_0},
    {"act_order_symmetric", 4, 8, 128, 64, true, true, DType::kQ4_0},
    {"whole_row", 4, 8, 96, 0, false, false, DType::kQ5_0},
    {"small_groups", 4, 8, 64, 16, false, false, DType::kF32},
    {"small_groups_act_order", 4, 8, 64, 8, true, true, DType::kF32},
    {"odd_groups", 4, 8, 144, 48, true, false, DType::kF32},
    {"int8", 8, 12, 64, 32, true, false, DType::kQ8_0},
    {"int8_act_order", 8, 12, 128, 32, true, true, DType::kQ8_0},
    {"int8_zeros", 8, 12, 64, 32, false, false, DType::kF32},
};

TEST(IntSchemes, GptqOfBothVersions) {
  for (const Spec& spec : kGptq) {
    for (const bool v2 : {false, true}) {
      SCOPED_TRACE(::testing::Message() << spec.name << (v2 ? " v2" : " v1"));
      const Plain plain(spec, 7);
      MemorySource source;
      add_gptq(source, spec, plain, v2 ? 0 : 1);
      const auto scheme = scheme_of(format(
          R"({{"quant_method":"gptq","bits":{},"group_size":{},"sym":{},"desc_act":{},
               "checkpoint_format":"{}"}})",
          spec.bits, spec.group == 0 ? -1 : spec.group, spec.symmetric, spec.act_order,
          v2 ? "gptq_v2" : "gptq"));
      expect_values(source, *scheme, spec, plain);
    }
  }
}

TEST(IntSchemes, Awq) {
  const Spec specs[] = {{"groups", 4, 24, 128, 32, false, false, DType::kQ5_0},
                        {"large_groups", 4, 16, 256, 128, false, false, DType::kQ5_0},
                        {"whole_row", 4, 8, 64, 0, false, false, DType::kQ5_0},
                        {"small_groups", 4, 8, 64, 16, false, false, DType::kF32}};
  for (const Spec& spec : specs) {
    SCOPED_TRACE(spec.name);
    const Plain plain(spec, 8);
    MemorySource source;
    add_awq(source, spec, plain);
    const auto scheme = scheme_of(format(R"({{"quant_method":"awq","bits":4,"group_size":{}}})",
                                         spec.group == 0 ? -1 : spec.group));
    expect_values(source, *scheme, spec, plain);
  }
}

TEST(IntSchemes, CompressedTensors) {
  const Spec specs[] = {{"groups", 4, 13, 128, 32, false, false, DType::kQ5_0},
                        {"symmetric", 4, 9, 96, 32, true, false, DType::kQ4_0},
                        {"channel", 4, 9, 96, 0, true, false, DType::kQ4_0},
                        {"act_order", 4, 9, 128, 64, false, true, DType::kQ5_0},
                        {"ragged_words", 4, 9, 20, 10, false, false, DType::kF32},
                        {"int8", 8, 9, 64, 32, true, false, DType::kQ8_0},
                        {"int8_zeros", 8, 9, 64, 32, false, false, DType::kF32}};
  for (const Spec& spec : specs) {
    SCOPED_TRACE(spec.name);
    const Plain plain(spec, 9);
    MemorySource source;
    add_packed(source, spec, plain);
    const std::string strategy =
        spec.group == 0 ? R"("channel")" : format(R"("group","group_size":{})", spec.group);
    const auto scheme = scheme_of(format(
        R"({{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":
             {{"group_0":{{"targets":["Linear"],"weights":
             {{"num_bits":{},"type":"int","symmetric":{},"strategy":{}}}}}}}}})",
        spec.bits, spec.symmetric, strategy));
    expect_values(source, *scheme, spec, plain);
  }
}

// Blocks have float16 scales: what these cannot hold stays exact in float32.
TEST(IntSchemes, ScalesBeyondFloat16AreKeptExactly) {
  const Spec spec{"tiny", 4, 8, 64, 32, true, false, DType::kF32};
  Plain plain({"", 4, 8, 64, 32, true, false, DType::kQ4_0}, 3);
  for (auto& row : plain.scales) row[2] = 0x1.8p-30f;
  MemorySource source;
  add_packed(source, spec, plain);
  std::vector<float> scales;
  for (int64_t n = 0; n < 8; ++n) {
    for (int64_t g = 0; g < 2; ++g) scales.push_back(plain.scales[g][n]);
  }
  source.add("m.weight_scale", DType::kF32, {8, 2}, scales);
  const auto scheme = scheme_of(
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{
          "targets":["Linear"],"weights":{"num_bits":4,"strategy":"group","group_size":32}}}})");
  const auto loaded = scheme->load(source, "m", 8, 64).value();
  EXPECT_EQ(loaded.tensor.dtype, DType::kF32);
  float value;
  std::memcpy(&value, loaded.tensor.data + (2 * 64 + 5) * sizeof(float), sizeof(value));
  EXPECT_EQ(value, plain.value(2, 5));
}

TEST(QuantizedMatrices, RowsAreSlicedAndGathered) {
  const Spec spec{"", 4, 16, 96, 32, false, false, DType::kQ5_0};
  const Plain plain(spec, 5);
  MemorySource source;
  add_gptq(source, spec, plain, 1);
  const auto scheme = scheme_of(R"({"quant_method":"gptq","bits":4,"group_size":32,"sym":false})");
  QuantizedMatrix whole = scheme->load(source, "m", 16, 96).value();
  whole.scale_block = 96;
  for (int64_t row = 0; row < 16; ++row) whole.scales.push_back(static_cast<float>(row));
  const auto expect_row = [&](const QuantizedMatrix& matrix, int64_t at, int64_t row) {
    QuantizedMatrix unscaled = matrix;
    unscaled.scales.clear();
    EXPECT_EQ(matrix.scales.at(at), static_cast<float>(row));
    const QuantizedMatrix floats = decode(unscaled);
    for (int64_t k = 0; k < 96; ++k) {
      float value;
      std::memcpy(&value, floats.tensor.data + (at * 96 + k) * sizeof(float), sizeof(float));
      ASSERT_EQ(value, plain.value(row, k));
    }
  };
  const QuantizedMatrix slice = slice_rows(whole, 5, 3);
  EXPECT_EQ(slice.tensor.shape, (Shape{3, 96}));
  for (int64_t i = 0; i < 3; ++i) expect_row(slice, i, 5 + i);
  const std::vector<int64_t> rows = {9, 0, 15, 9};
  const QuantizedMatrix gathered = gather_rows(whole, rows);
  EXPECT_EQ(gathered.tensor.shape, (Shape{4, 96}));
  for (int64_t i = 0; i < 4; ++i) expect_row(gathered, i, rows[i]);
}

}  // namespace
}  // namespace octavo::quant
