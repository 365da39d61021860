// Tiny checkpoints in every variant of the architecture against what Hugging Face transformers
// computes for them (tests/data/goldens/README.md has the format and the tolerances).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "backends/registry.h"
#include "formats/hf_checkpoint.h"
#include "formats/safetensors.h"
#include "golden/golden_json.h"
#include "golden/made_folder.h"
#include "octavo/model.h"
#include "support/gguf_from_folder.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

using testing::golden_folder;
using testing::golden_names;
using testing::ids_of;

struct Arithmetic {
  const char* name;
  const char* backend;
  const char* dtype;
  const char* kv_cache_dtype;
  bool exact;  // float32 arithmetic
};
// How often what the reference loses in bfloat16 another arithmetic may lose.
struct Allowance {
  double rms;
  double median_kl;
  double margin;  // times the RMS, of a token that is not chosen
};
constexpr Allowance kBFloat16 = {2, 3, 6};
constexpr Allowance kInteger = {3, 6, 9};  // inputs of products in 8 bits: KL 5.5 at most
constexpr Allowance kInt8Kv = {2, 3, 9};   // measured, in float32 otherwise: 1.8, 2.6, 7.3 at most

constexpr Arithmetic kArithmetics[] = {
    {"ref", "ref", "auto", "auto", true},
    {"cpu_float32", "cpu", "float32", "float32", true},
    {"cpu_bfloat16", "cpu", "bfloat16", "auto", false},
    {"cpu_auto", "cpu", "auto", "auto", false},
    {"cpu_int8_kv", "cpu", "float32", "int8", false},
    {"cuda_auto", "cuda", "auto", "auto", false},
};

struct Golden {
  explicit Golden(const std::string& folder)
      : json(parse_json(formats::read_text_file(folder + "/golden.json").value(), folder).value()),
        file(formats::MmapFile::open(folder + "/golden.safetensors").value()),
        header(formats::read_safetensors_header(file->bytes(), folder).value()) {}

  // Row `row` of a stored float32 matrix.
  std::vector<float> row(const char* name, int64_t row) const {
    for (const formats::TensorInfo& info : header.tensors) {
      if (info.name != name) continue;
      std::vector<float> values(info.shape[1]);
      std::memcpy(values.data(), file->bytes().data() + info.offset_bytes + row * info.shape[1] * 4,
                  values.size() * 4);
      return values;
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }

  // Whether another rounding leaves the same experts at a position of all_positions_prompt.
  bool experts_are_sure(int64_t position) const {
    for (const formats::TensorInfo& info : header.tensors) {
      if (info.name != "router_gaps") continue;
      for (int64_t layer = 0; layer < info.shape[0]; ++layer) {
        if (row("router_gaps", layer)[position] < 0.1) return false;
      }
    }
    return true;
  }

  bool has_experts() const {
    return std::any_of(header.tensors.begin(), header.tensors.end(),
                       [](const formats::TensorInfo& info) { return info.name == "router_gaps"; });
  }

  // Whether inputs of products are rounded to E4M3: where one falls the other way, logits move by
  // tenths, so that none can be compared closely.
  bool rounds_inputs() const {
    return json.at("accuracy").as_object().contains("bfloat16_linear_inputs");
  }

  // Whether the weights are integers, with which the CPU computes in integers unless told
  // otherwise.
  bool has_integers() const {
    return json.as_object().contains("decoded_crc32") && !rounds_inputs();
  }

  // What the reference loses in bfloat16.
  double bfloat16_loss(const char* figure) const {
    const char* run = rounds_inputs() ? "bfloat16_linear_inputs" : "bfloat16_run";
    return json.at("accuracy").at(run).at(figure).as_double();
  }

  Json json;
  std::shared_ptr<const formats::MmapFile> file;
  formats::SafetensorsHeader header;
};

using Parameter = std::tuple<std::string, Arithmetic>;

class Checkpoints : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    const auto backend = backends::open_backend(arithmetic().backend, backends::Arithmetic::kAuto);
    if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  }

  std::string folder() const { return golden_folder(std::get<0>(GetParam())); }
  const Arithmetic& arithmetic() const { return std::get<1>(GetParam()); }

  std::unique_ptr<Model> load(const std::string& path) const {
    LoadOptions options;
    options.backend = arithmetic().backend;
    options.dtype = arithmetic().dtype;
    options.kv_cache_dtype = arithmetic().kv_cache_dtype;
    auto model = Model::load(path, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return std::move(*model);
  }

  // Whether every logit has to be that of the reference.
  bool exact(const Golden& golden) const { return arithmetic().exact && !golden.rounds_inputs(); }

  Allowance allowance(const Golden& golden) const {
    if (std::string_view(arithmetic().kv_cache_dtype) == "int8") return kInt8Kv;
    const bool integers = std::string_view(arithmetic().name) == "cpu_auto";
    return integers && golden.has_integers() ? kInteger : kBFloat16;
  }

  // Compares one row; what all rows have lost is checked at the end.
  void compare(std::span<const float> actual, const std::vector<float>& expected, bool exact) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double error = static_cast<double>(actual[i]) - expected[i];
      square_sum_ += error * error;
      if (exact) {
        ASSERT_NEAR(actual[i], expected[i], 1e-3) << "id " << i;
      }
    }
    count_ += expected.size();
    divergences_.push_back(divergence(actual, expected));
  }

  double rms() const { return std::sqrt(square_sum_ / static_cast<double>(count_)); }

  double median_divergence() {
    const auto middle = divergences_.begin() + static_cast<int64_t>(divergences_.size() / 2);
    std::nth_element(divergences_.begin(), middle, divergences_.end());
    return *middle;
  }

 private:
  // Of the distributions that the logits mean (Kullback and Leibler, 1951).
  static double divergence(std::span<const float> actual, const std::vector<float>& expected) {
    double actual_sum = 0;
    double expected_sum = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      actual_sum += std::exp(static_cast<double>(actual[i]));
      expected_sum += std::exp(static_cast<double>(expected[i]));
    }
    double result = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double log_p = expected[i] - std::log(expected_sum);
      result += std::exp(log_p) * (log_p - (actual[i] - std::log(actual_sum)));
    }
    return result;
  }

  std::vector<double> divergences_;
  double square_sum_ = 0;
  size_t count_ = 0;
};

TEST_P(Checkpoints, LogitsOfEveryPromptAndPosition) {
  const Golden golden(folder());
  const auto model = load(folder());
  const bool is_exact = exact(golden);
  const JsonArray& prompts = golden.json.at("prompts").as_array();
  const bool sure = is_exact || !golden.has_experts();
  for (size_t i = 0; sure && i < prompts.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "prompt " << i);
    const auto logits = model->logits(ids_of(prompts[i].at("ids")), LogitsPositions::kLast).value();
    compare(logits.values, golden.row("last_logits", static_cast<int64_t>(i)), is_exact);
  }
  const auto all = golden.json.at("all_positions_prompt").as_int64();
  const auto logits = model->logits(ids_of(prompts[all].at("ids")), LogitsPositions::kAll).value();
  for (int64_t position = 0; position < logits.num_positions; ++position) {
    SCOPED_TRACE(::testing::Message() << "position " << position);
    if (!sure && !golden.experts_are_sure(position)) continue;
    compare(std::span(logits.values).subspan(position * logits.vocab_size, logits.vocab_size),
            golden.row("all_logits", position), is_exact);
  }
  if (is_exact) {
    EXPECT_LE(rms(), 1e-4);
    return;
  }
  EXPECT_LE(median_divergence(), allowance(golden).median_kl * golden.bfloat16_loss("median_kl"));
  // An expert that changed shows in later positions as well, so that no bound on the mean holds.
  if (!golden.has_experts()) {
    EXPECT_LE(rms(), allowance(golden).rms * golden.bfloat16_loss("rms"));
  }
}

TEST_P(Checkpoints, GreedyContinuations) {
  const Golden golden(folder());
  const auto model = load(folder());
  const bool is_exact = exact(golden);
  if (!is_exact && golden.has_experts()) {
    GTEST_SKIP() << "an expert that changes with the rounding may change any token";
  }
  const double allowed = is_exact ? 1e-3 : allowance(golden).margin * golden.bfloat16_loss("rms");
  for (const Json& prompt : golden.json.at("prompts").as_array()) {
    Request request;
    request.prompt_token_ids = ids_of(prompt.at("ids"));
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 32;
    const auto actual = model->generate(request, nullptr).value().token_ids;
    const auto expected = ids_of(prompt.at("greedy"));
    for (size_t i = 0; i < expected.size(); ++i) {
      if (i < actual.size() && actual[i] == expected[i]) continue;
      ASSERT_LT(i, actual.size());
      // With other roundings a third may be as close.
      if (is_exact) {
        EXPECT_EQ(actual[i], ids_of(prompt.at("runner_up"))[i]) << "step " << i;
      }
      EXPECT_LT(prompt.at("margin").at(i).as_double(), allowed) << "step " << i;
      break;  // nothing after the first other token can be compared
    }
  }
}

// config.other.json says the same in the other spelling.
TEST_P(Checkpoints, BothSpellingsOfTheConfigAreTheSameModel) {
  const std::string other = testing::temp_path("other");
  std::filesystem::create_directories(other);
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    std::filesystem::copy(entry.path(), other / entry.path().filename());
  }
  std::filesystem::rename(other + "/config.other.json", other + "/config.json");
  const std::vector<TokenId> ids = {5, 17, 3, 99, 42, 7, 23};
  const auto a = load(folder())->logits(ids, LogitsPositions::kLast).value();
  const auto b = load(other)->logits(ids, LogitsPositions::kLast).value();
  EXPECT_EQ(a.values, b.values);
}

// The same models as GGUF files, where llama.cpp's format can hold them. It has no windows for
// Llama and Qwen 2, no dense layers between Qwen's experts, one way to weigh these, frequencies
// that do not depend on the length, and takes the q/k norm of Llama 4 from the number of experts,
// its chunks as 8,192 positions.
std::vector<std::string> gguf_names() {
  const std::set<std::string> others = {
      "llama4_chunk_edge", "llama4_maverick",     "llama_dynamic",
      "mistral_window",    "mistral_window_edge", "qwen2_window",
      "qwen3_moe",         "qwen3_moe_plain",     "qwen3_moe_top1"};
  std::vector<std::string> names = golden_names(false);
  const size_t all = names.size();
  std::erase_if(names, [&](const std::string& name) { return others.contains(name); });
  EXPECT_EQ(names.size(), all - others.size());
  return names;
}

class GgufCheckpoints : public Checkpoints {};

TEST_P(GgufCheckpoints, LogitsOfEveryPrompt) {
  const std::string path = testing::temp_path("model.gguf");
  testing::write_gguf_from_folder(folder(), path);
  const Golden golden(folder());
  const auto model = load(path);
  const JsonArray& prompts = golden.json.at("prompts").as_array();
  for (size_t i = 0; i < prompts.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "prompt " << i);
    const auto logits = model->logits(ids_of(prompts[i].at("ids")), LogitsPositions::kLast).value();
    compare(logits.values, golden.row("last_logits", static_cast<int64_t>(i)), true);
  }
  std::filesystem::remove(path);
}

std::string name_of(const ::testing::TestParamInfo<Parameter>& row) {
  return std::get<0>(row.param) + "_" + std::get<1>(row.param).name;
}

INSTANTIATE_TEST_SUITE_P(All, Checkpoints,
                         ::testing::Combine(::testing::ValuesIn(golden_names(false)),
                                            ::testing::ValuesIn(kArithmetics)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Quantized, Checkpoints,
                         ::testing::Combine(::testing::ValuesIn(golden_names(true)),
                                            ::testing::ValuesIn(kArithmetics)),
                         name_of);
// Their weights are float32, whatever the folder's are.
INSTANTIATE_TEST_SUITE_P(All, GgufCheckpoints,
                         ::testing::Combine(::testing::ValuesIn(gguf_names()),
                                            ::testing::Values(kArithmetics[0], kArithmetics[1])),
                         name_of);

}  // namespace
}  // namespace octavo
