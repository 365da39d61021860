// Whole models on a GPU: against the oracle, whatever kernels attention takes and however a prompt
// is cut; and the engine's equivalences where all kernels keep them.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/registry.h"
#include "octavo/engine.h"
#include "octavo/model.h"
#include "support/engine_schedules.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo {
namespace {

class CudaModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto backend = backends::open_backend("cuda", backends::Arithmetic::kAuto);
    if (!backend.ok()) GTEST_SKIP() << backend.status().message();
    path_ = testing::temp_path("model.gguf");
  }

  // Heads of which there are kernels, products that cuBLASLt takes.
  void write_model(int64_t head_dim, bool biases = false) const {
    testing::TinyLlama spec;
    spec.hidden_size = 256;
    spec.intermediate_size = 320;
    spec.head_dim = head_dim;
    spec.vocab_size = 128;
    spec.dtype = DType::kBF16;
    spec.biases = biases;
    testing::write_tiny_llama(path_, spec);
  }

  std::unique_ptr<Model> load(const char* backend, const char* attention = "auto",
                              const char* kv_cache_dtype = "auto") const {
    LoadOptions options;
    options.backend = backend;
    options.attn_implementation = attention;
    options.kv_cache_dtype = kv_cache_dtype;
    auto model = Model::load(path_, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return std::move(*model);
  }

  static std::vector<TokenId> prompt(int64_t length) {
    std::vector<TokenId> ids;
    for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<TokenId>(i * 37 % 128));
    return ids;
  }

  // The root of the mean square of the difference, by that of the expected values.
  static double relative_rms(std::span<const float> actual, std::span<const float> expected) {
    double error = 0, square = 0;
    EXPECT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
      square += std::pow(static_cast<double>(expected[i]), 2);
    }
    return std::sqrt(error / square);
  }

  std::string path_;
};

constexpr double kBFloat16Model = 1.5e-2;
constexpr double kFp8KvModel = 6e-2;
// Of folders whose hidden states are small beside their roundings to bfloat16: measured, 2.7e-2.
// One position of one of them is off by 10 to 17 %, with 4-bit and with bfloat16 weights alike:
// parts of a prompt with it are off by up to 5.5e-2.
constexpr double kBFloat16Folder = 4e-2;
constexpr double kBFloat16FolderPart = 7e-2;

TEST_F(CudaModel, LogitsAgreeWithRefWhateverKernelAttends) {
  for (const int64_t head_dim : {64, 128, 256}) {
    write_model(head_dim, head_dim == 128);
    const auto ids = prompt(300);
    const Logits expected = load("ref")->logits(ids, LogitsPositions::kAll).value();
    for (const char* attention : {"auto", "flash_attention_2", "eager"}) {
      SCOPED_TRACE(attention);
      const auto model = load("cuda", attention);
      const Logits actual = model->logits(ids, LogitsPositions::kAll).value();
      EXPECT_LE(relative_rms(actual.values, expected.values), kBFloat16Model);
    }
  }
}

TEST_F(CudaModel, DecodesAndChunksAgreeWithTheWholePrompt) {
  write_model(64);
  const auto ids = prompt(120);
  const Logits expected = load("ref")->logits(ids, LogitsPositions::kAll).value();
  const auto model = load("cuda");
  for (int64_t begin = 0; begin < 120;) {
    const int64_t count = begin < 40 ? 1 : begin < 60 ? 5 : 30;
    const std::span<const TokenId> until(ids.data(), static_cast<size_t>(begin + count));
    const Logits actual = model->logits_from(until, begin).value();
    EXPECT_LE(
        relative_rms(actual.values, std::span(expected.values)
                                        .subspan(static_cast<size_t>(begin * expected.vocab_size),
                                                 actual.values.size())),
        kBFloat16Model)
        << begin << " + " << count;
    begin += count;
  }
}

TEST_F(CudaModel, Fp8Cache) {
  write_model(128);
  const auto ids = prompt(200);
  const Logits expected = load("ref")->logits(ids, LogitsPositions::kLast).value();
  const Logits actual = load("cuda", "auto", "fp8")->logits(ids, LogitsPositions::kLast).value();
  EXPECT_LE(relative_rms(actual.values, expected.values), kFp8KvModel);
}

// Quantised folders of 4 bits: codes on Hopper, elsewhere bfloat16; with act order too.
TEST_F(CudaModel, Int4Folders) {
  for (const char* name : {"llama_awq", "llama_gptq", "llama_gptq_act_order", "llama_ct_int4"}) {
    SCOPED_TRACE(name);
    path_ = std::string(OCTAVO_TEST_DATA "/goldens/") + name;
    const auto ids = prompt(100);
    const Logits expected = load("ref")->logits(ids, LogitsPositions::kAll).value();
    const auto model = load("cuda");
    EXPECT_LE(
        relative_rms(model->logits(ids, LogitsPositions::kAll).value().values, expected.values),
        kBFloat16Folder);
    for (const int64_t begin : {40, 84, 99}) {  // 60, 16 and 1 tokens
      const Logits actual = model->logits_from(ids, begin).value();
      const auto part =
          std::span(expected.values).subspan(static_cast<size_t>(begin * expected.vocab_size));
      EXPECT_LE(relative_rms(actual.values, part), kBFloat16FolderPart) << begin;
    }
    LoadOptions options;
    options.backend = "cuda";
    const auto needs = measure_memory(path_, options);
    ASSERT_TRUE(needs.ok()) << needs.status().message();
    EXPECT_EQ(needs->weight_bytes, model->info().weight_bytes);
  }
}

TEST_F(CudaModel, RefusesWhatItHasNoKernelsFor) {
  write_model(64);
  LoadOptions options;
  options.backend = "cuda";
  options.kv_cache_dtype = "float16";
  auto model = Model::load(path_, options);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("kv_cache_dtype float16"), std::string::npos);
  options.kv_cache_dtype = "auto";
  options.dtype = "float32";
  model = Model::load(path_, options);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("bfloat16 only"), std::string::npos);
}

// A third of a token's memory on the GPU is not to be had: the error says so, and the next try
// works.
TEST_F(CudaModel, TooLargeACacheIsAnError) {
  write_model(64);
  EngineConfig config;
  config.backend = "cuda";
  config.num_gpu_blocks_override = 1 << 30;
  const auto engine = AsyncEngine::create(path_, config);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), StatusCode::kResourceExhausted) << engine.status().message();
  config.num_gpu_blocks_override = 0;
  EXPECT_TRUE(AsyncEngine::create(path_, config).ok());
}

// Shapes that only kernels take whose result for a row is the same in every batch.
TEST_F(CudaModel, RandomSchedulesChangeNoBit) {
  testing::TinyLlama spec;
  spec.hidden_size = 36;
  spec.intermediate_size = 44;
  spec.num_attention_heads = 2;
  spec.num_key_value_heads = 1;
  spec.dtype = DType::kBF16;
  testing::write_tiny_llama(path_, spec);
  testing::ScheduleOptions options;
  options.model_path = path_;
  options.backend = "cuda";
  options.attn_implementation = "eager";
  options.block_sizes = {16, 32, 48};
  options.num_schedules = 60;
  options.long_prompt_tokens = 200;
  testing::run_random_schedules(options);
}

}  // namespace
}  // namespace octavo
