// The engine's equivalences, bit for bit: a row's logits depend neither on how the prompt is cut,
// nor on what else is in the batch, nor on the number of threads.
#include "engine/model_runner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/rng.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo::engine {
namespace {

using testing::TinyLlama;

// Longer than one attention tile, so that merging tiles is part of it.
constexpr int64_t kLongest = 600;

std::unique_ptr<ModelRunner> make_runner(const std::string& path, const LoadOptions& options) {
  const auto checkpoint = formats::open_checkpoint(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  auto runner = ModelRunner::create(**checkpoint, options);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  EXPECT_TRUE((*runner)->resize_kv_cache(128 * (*runner)->kv_groups().num_groups()).ok());
  return std::move(*runner);
}

LoadOptions with_threads(int threads) {
  LoadOptions options;
  options.threads = threads;
  return options;
}

std::vector<TokenId> random_ids(Rng& rng, int64_t n, int64_t vocab_size) {
  std::vector<TokenId> ids(n);
  for (TokenId& id : ids) id = static_cast<TokenId>(rng.next_u64() % vocab_size);
  return ids;
}

using Rows = std::vector<std::vector<float>>;  // [position][vocab]

// Runs all sequences to their end by a random schedule with all logits.
std::vector<Rows> run_schedule(ModelRunner& runner,
                               const std::vector<std::vector<TokenId>>& prompts, Rng& rng,
                               int64_t max_chunk) {
  BlockManager blocks(runner.num_kv_blocks(), runner.limits().block_size, false,
                      runner.kv_groups().spans);
  const int64_t max_rows = runner.limits().max_logit_rows;
  std::vector<Sequence> sequences(prompts.size());
  std::vector<Rows> rows(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    sequences[i].token_ids = prompts[i];
    sequences[i].rope_variant = runner.rope_variant(sequences[i].num_tokens());
  }
  while (true) {
    std::vector<ScheduledSlice> slices;
    std::vector<size_t> owners;
    int64_t budget = max_rows;
    for (size_t i = 0; i < sequences.size(); ++i) {
      Sequence& s = sequences[i];
      const bool skip = prompts.size() > 1 && rng.next_u64() % 3 == 0;
      if (s.num_pending_tokens() == 0 || budget == 0 || skip) continue;
      int64_t chunk = 1 + static_cast<int64_t>(rng.next_u64() % max_chunk);
      chunk = std::min({chunk, s.num_pending_tokens(), budget});
      budget -= chunk;
      EXPECT_TRUE(blocks.grow(s.block_table, s.num_computed_tokens + chunk));
      slices.push_back({&s, chunk, chunk});
      owners.push_back(i);
    }
    bool all_done = true;
    for (const Sequence& s : sequences) all_done &= s.num_pending_tokens() == 0;
    if (all_done) break;
    if (slices.empty()) continue;
    const auto output = runner.forward(slices);
    EXPECT_TRUE(output.ok());
    const ops::Mat& logits = output->logits;
    int64_t row = 0;
    for (size_t k = 0; k < slices.size(); ++k) {
      for (int64_t t = 0; t < slices[k].num_tokens; ++t, ++row) {
        const float* values = logits.row<float>(row);
        rows[owners[k]].emplace_back(values, values + logits.cols);
      }
    }
  }
  for (Sequence& s : sequences) blocks.shrink(s.block_table, 0);
  EXPECT_TRUE(blocks.check_integrity({}));
  return rows;
}

void expect_same_bits(const Rows& a, const Rows& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)), 0)
        << "position " << i;
  }
}

// Every architecture that there are golden values of, with all that they mask, cap and route. The
// prompts lie on both sides of the length that rotations depend on.
TEST(Architectures, ChunkedBatchedAndThreadedAreTheSameBits) {
  for (const auto& entry : std::filesystem::directory_iterator(OCTAVO_TEST_DATA "/goldens")) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().string());
    Rng rng(12);
    const auto reference = make_runner(entry.path(), with_threads(1));
    const int64_t vocab_size = reference->model().config().vocab_size;
    std::vector<std::vector<TokenId>> prompts;
    std::vector<Rows> alone;
    for (const int64_t length : {5, 33, 70, 150}) {
      prompts.push_back(random_ids(rng, length, vocab_size));
      alone.push_back(run_schedule(*reference, {prompts.back()}, rng, kLongest)[0]);
    }
    for (const int threads : {1, 2}) {
      const auto runner = make_runner(entry.path(), with_threads(threads));
      ASSERT_TRUE(runner->resize_kv_cache(64 * runner->kv_groups().num_groups()).ok());
      const auto rows = run_schedule(*runner, prompts, rng, 20);
      for (size_t i = 0; i < prompts.size(); ++i) expect_same_bits(rows[i], alone[i]);
    }
  }
}

class Equivalence : public ::testing::TestWithParam<DType> {};

TEST_P(Equivalence, ChunkedBatchedAndThreadedAreTheSameBits) {
  TinyLlama spec;
  spec.dtype = GetParam();
  if (dtype_traits(spec.dtype).block_size == 256) {
    spec.hidden_size = spec.intermediate_size = 256;
    spec.num_attention_heads = 16;
  }
  const std::string path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(path, spec);
  Rng rng(11);
  std::vector<std::vector<TokenId>> prompts;
  for (const int64_t length : {int64_t{1}, int64_t{17}, int64_t{255}, int64_t{257}, kLongest}) {
    prompts.push_back(random_ids(rng, length, spec.vocab_size));
  }
  const auto reference = make_runner(path, with_threads(1));
  std::vector<Rows> alone;
  for (const auto& prompt : prompts) {
    alone.push_back(run_schedule(*reference, {prompt}, rng, kLongest)[0]);
  }
  for (const int threads : {1, 2, 3}) {
    const auto runner = make_runner(path, with_threads(threads));
    for (const int64_t max_chunk : {1, 7, 64}) {
      if (max_chunk == 1 && threads == 3) continue;  // the slowest combination adds nothing
      SCOPED_TRACE(::testing::Message() << threads << " threads, chunks up to " << max_chunk);
      const auto rows = run_schedule(*runner, prompts, rng, max_chunk);
      for (size_t i = 0; i < prompts.size(); ++i) expect_same_bits(rows[i], alone[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Equivalence,
                         ::testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                           DType::kQ8_0, DType::kQ4_K, DType::kQ6_K, DType::kBF16,
                                           DType::kF16, DType::kF32),
                         [](const auto& type) {
                           return std::string(dtype_traits(type.param).name);
                         });

// The fast backend against the oracle on models of every shape that the loader knows.
TEST(ModelRunner, CpuInFloat32AgreesWithRef) {
  for (const bool variant : {false, true}) {
    TinyLlama spec;
    spec.dtype = DType::kF32;
    spec.tied = !variant;
    spec.biases = variant;
    spec.rope_factors = variant;
    spec.head_dim = variant ? 24 : 16;  // not hidden_size / heads
    const std::string path = testing::temp_path("model.gguf");
    testing::write_tiny_llama(path, spec);
    Rng rng(5);
    const auto prompt = random_ids(rng, 300, spec.vocab_size);
    LoadOptions options;
    options.backend = "ref";
    const auto expected = run_schedule(*make_runner(path, options), {prompt}, rng, 100)[0];
    options.backend = "cpu";
    options.dtype = "float32";
    const auto actual = run_schedule(*make_runner(path, options), {prompt}, rng, 100)[0];
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      for (size_t j = 0; j < actual[i].size(); ++j) {
        ASSERT_NEAR(actual[i][j], expected[i][j], 1e-4) << "position " << i << ", id " << j;
      }
    }
  }
}

}  // namespace
}  // namespace octavo::engine
