// Embeddings against Hugging Face: a decoder's logits are its hidden states times the LM head, so
// that an embedding times the head must give the logits that transformers computed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>

#include "base/json.h"
#include "engine/pooler.h"
#include "formats/hf_checkpoint.h"
#include "formats/safetensors.h"
#include "octavo/engine.h"

namespace octavo {
namespace {

constexpr double kTolerance = 1e-3;  // of a logit in float32 arithmetic, as for the goldens

struct Case {
  const char* name;
  const char* head;  // the tensor that logits are made by
};
constexpr Case kCases[] = {{"qwen3", "model.embed_tokens.weight"},
                           {"llama3_gqa", "lm_head.weight"},
                           {"olmo2", "lm_head.weight"}};

struct Matrix {
  int64_t cols = 0;
  std::vector<float> values;
  std::span<const float> row(int64_t i) const {
    return std::span(values).subspan(static_cast<size_t>(i * cols), static_cast<size_t>(cols));
  }
};

// A float32 or bfloat16 tensor of a safetensors file.
Matrix read_matrix(const std::string& path, const std::string& name) {
  const auto file = formats::MmapFile::open(path).value();
  const auto header = formats::read_safetensors_header(file->bytes(), path).value();
  Matrix result;
  for (const formats::TensorInfo& info : header.tensors) {
    if (info.name != name) continue;
    result.cols = info.shape[1];
    result.values.resize(static_cast<size_t>(info.shape[0] * info.shape[1]));
    const std::byte* data = file->bytes().data() + info.offset_bytes;
    for (size_t i = 0; i < result.values.size(); ++i) {
      uint32_t bits = 0;
      if (info.dtype == DType::kF32) {
        std::memcpy(&bits, data + 4 * i, 4);
      } else {
        uint16_t half = 0;
        std::memcpy(&half, data + 2 * i, 2);
        bits = static_cast<uint32_t>(half) << 16;
      }
      std::memcpy(&result.values[i], &bits, 4);
    }
  }
  EXPECT_FALSE(result.values.empty()) << path << ": " << name;
  return result;
}

class Embeddings : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    folder_ = std::string(OCTAVO_TEST_DATA "/goldens/") + GetParam().name;
    const std::string path = folder_ + "/golden.json";
    golden_ = parse_json(formats::read_text_file(path).value(), path).value();
    head_ = read_matrix(folder_ + "/model.safetensors", GetParam().head);
    EngineConfig config;
    config.dtype = config.kv_cache_dtype = "float32";
    config.max_num_seqs = 4;
    config.max_num_batched_tokens = 7;  // prompts come in chunks
    config.block_size = 4;
    auto engine = AsyncEngine::create(folder_, config);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    engine_ = std::move(*engine);
  }

  std::vector<TokenId> prompt(int64_t index) const {
    std::vector<TokenId> ids;
    for (const Json& id : golden_.at("prompts").as_array().at(index).at("ids").as_array()) {
      ids.push_back(id.to_number<TokenId>());
    }
    return ids;
  }

  RequestOutput run(const EngineRequest& request) {
    std::promise<RequestOutput> promise;
    const auto id = engine_->submit(request, [&](const RequestOutput& output) {
      if (output.finished) promise.set_value(output);
    });
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? promise.get_future().get() : RequestOutput();
  }

  std::vector<float> embed(const std::vector<TokenId>& ids, const PoolingParams& pooling) {
    EngineRequest request;
    request.prompt_token_ids = ids;
    request.pooling = pooling;
    RequestOutput output = run(request);
    EXPECT_TRUE(output.status.ok()) << output.status.message();
    EXPECT_EQ(output.usage.prompt_tokens, static_cast<int64_t>(ids.size()));
    EXPECT_EQ(output.usage.completion_tokens, 0);
    EXPECT_EQ(static_cast<int64_t>(output.embedding.size()), engine_->info().hidden_size);
    return output.embedding;
  }

  void expect_logits(const std::vector<float>& embedding, const std::vector<double>& logits) {
    ASSERT_EQ(static_cast<int64_t>(embedding.size()), head_.cols);
    for (size_t i = 0; i < logits.size(); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < head_.cols; ++j) sum += head_.row(i)[j] * embedding[j];
      ASSERT_NEAR(sum, logits[i], kTolerance) << "logit " << i;
    }
  }

  std::string folder_;
  Json golden_;
  Matrix head_;
  std::unique_ptr<AsyncEngine> engine_;
};

TEST_P(Embeddings, OfTheLastTokenIsWhatItsLogitsAreMadeOf) {
  const Matrix last_logits = read_matrix(folder_ + "/golden.safetensors", "last_logits");
  const auto num_prompts = static_cast<int64_t>(golden_.at("prompts").as_array().size());
  for (int64_t i = 0; i < num_prompts; ++i) {
    const auto row = last_logits.row(i);
    const PoolingParams pooling{.pooling_type = PoolingType::kLast, .normalize = false};
    expect_logits(embed(prompt(i), pooling), {row.begin(), row.end()});
  }
}

TEST_P(Embeddings, OfAllTokensIsTheirMean) {
  const Matrix all_logits = read_matrix(folder_ + "/golden.safetensors", "all_logits");
  const auto index = golden_.at("all_positions_prompt").to_number<int64_t>();
  const std::vector<TokenId> ids = prompt(index);
  std::vector<double> mean(static_cast<size_t>(all_logits.cols));
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t j = 0; j < mean.size(); ++j) {
      mean[j] += all_logits.row(static_cast<int64_t>(i))[j] / static_cast<double>(ids.size());
    }
  }
  const PoolingParams pooling{.pooling_type = PoolingType::kMean, .normalize = false};
  const auto first = embed(ids, pooling);
  expect_logits(first, mean);
  EXPECT_EQ(embed(ids, pooling), first);  // nothing of a prompt may come from the cache
}

TEST_P(Embeddings, AreNormalizedAfterTheyAreCut) {
  const std::vector<TokenId> ids = prompt(0);
  const auto raw = embed(ids, {.normalize = false});
  EngineRequest request;
  request.prompt_token_ids = ids;
  request.pooling = PoolingParams{.dimensions = 5};
  const auto cut = run(request).embedding;
  ASSERT_EQ(cut.size(), 5u);
  double length = 0;
  for (size_t i = 0; i < 5; ++i) length += static_cast<double>(raw[i]) * raw[i];
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(cut[i], raw[i] / std::sqrt(length), 1e-6);
}

TEST_P(Embeddings, RunBesideAnswersWithoutChangingThem) {
  EngineRequest answer;
  answer.prompt_token_ids = prompt(0);
  answer.sampling.temperature = 0;
  answer.sampling.max_tokens = 8;
  answer.sampling.ignore_eos = true;
  answer.output_kind = OutputKind::kFinalOnly;
  const auto alone = run(answer).outputs.at(0).token_ids;
  const auto embedding = embed(prompt(1), {});

  std::vector<std::promise<RequestOutput>> promises(6);
  for (size_t i = 0; i < promises.size(); ++i) {
    EngineRequest request = answer;
    if (i % 2 == 1) {
      request.prompt_token_ids = prompt(1);
      request.pooling = PoolingParams{};
    }
    const auto id = engine_->submit(request, [&promise = promises[i]](const RequestOutput& output) {
      if (output.finished) promise.set_value(output);
    });
    ASSERT_TRUE(id.ok());
  }
  for (size_t i = 0; i < promises.size(); ++i) {
    const RequestOutput output = promises[i].get_future().get();
    if (i % 2 == 1) {
      EXPECT_EQ(output.embedding, embedding);
    } else {
      EXPECT_EQ(output.outputs.at(0).token_ids, alone);
    }
  }
  EXPECT_EQ(engine_->stats().num_failed, 0);
}

TEST_P(Embeddings, RefuseWhatOnlyAnswersHave) {
  EngineRequest request;
  request.prompt_token_ids = prompt(0);
  request.pooling = PoolingParams{};
  const auto refused = [&](const EngineRequest& bad, const char* field) {
    const auto id = engine_->submit(bad, [](const RequestOutput&) {});
    ASSERT_FALSE(id.ok());
    EXPECT_NE(id.status().message().find(field), std::string::npos) << id.status().message();
  };
  EngineRequest bad = request;
  bad.n = 2;
  refused(bad, "n must be 1");
  bad = request;
  bad.echo = true;
  refused(bad, "echo");
  bad = request;
  bad.sampling.prompt_logprobs = 1;
  refused(bad, "prompt_logprobs");
  bad = request;
  bad.pooling->dimensions = -1;
  refused(bad, "dimensions");
}

INSTANTIATE_TEST_SUITE_P(Goldens, Embeddings, ::testing::ValuesIn(kCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(Pooler, DividesRowsIntoCallsAsItPleases) {
  float values[] = {1, 2, 3, 4, 5, 7};
  const ops::Mat rows(values, DType::kF32, 3, 2);
  const PoolingParams params{.pooling_type = PoolingType::kMean, .normalize = false};
  engine::Pooler whole(params);
  whole.add(rows);
  engine::Pooler pieces(params);
  pieces.add(rows.top(1));
  pieces.add(rows.row_range(1, 2));
  EXPECT_EQ(whole.take().value(), (std::vector<float>{3, 13.0f / 3}));
  EXPECT_EQ(whole.take().value(), pieces.take().value());
}

TEST(Pooler, RefusesWhatIsNotFinite) {
  float values[] = {1, NAN};
  engine::Pooler pooler({});
  pooler.add(ops::Mat(values, DType::kF32, 1, 2));
  EXPECT_EQ(pooler.take().status().code(), StatusCode::kInternal);
  float zeros[] = {0, 0};
  engine::Pooler nothing({});
  nothing.add(ops::Mat(zeros, DType::kF32, 1, 2));
  EXPECT_EQ(nothing.take().value(), (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace octavo
