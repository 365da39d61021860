// `octavo eval` on a small model, against sums over the logits that `octavo logits` writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "base/json.h"
#include "cli/run_octavo.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

using testing::expect_failure;
using testing::octavo;
using testing::Outcome;
using testing::read_file;

constexpr int kBos = 4;

// A model with real weights whose tokens are four letters and, where `bos`, one that begins a text.
std::string letter_model(const std::string& name, bool bos) {
  const std::string folder = testing::temp_path(name);
  std::filesystem::create_directories(folder);
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy(std::string(OCTAVO_TEST_DATA "/goldens/llama3_gqa/") + file, folder);
  }
  std::ofstream(folder + "/tokenizer.json") << format(
      R"({{"added_tokens": [{{"id": {0}, "content": "<s>", "special": true}}],
      "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false}},
      "post_processor": {1},
      "model": {{"type": "BPE", "vocab": {{"h": 0, "i": 1, "a": 2, "b": 3}}, "merges": []}}}})",
      kBos,
      bos ? R"({"type": "TemplateProcessing", "single": [
          {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
          "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}})"
          : "null");
  std::ofstream(folder + "/tokenizer_config.json") << R"({"bos_token": "<s>"})";
  return folder;
}

// The same model, its last weights a little different.
std::string changed_model() {
  const std::string folder = letter_model("changed", false);
  const std::string path = folder + "/model.safetensors";
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(size - 400);
  file << std::string(400, '\x3c');
  return folder;
}

std::string letters(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += "hiab"[(i * i + i / 3) % 4];
  return text;
}

std::vector<int> ids_of(const std::string& text, bool bos) {
  std::vector<int> ids;
  if (bos) ids.push_back(kBos);
  for (const char c : text) ids.push_back(static_cast<int>(std::string("hiab").find(c)));
  return ids;
}

// log of the probabilities after each token.
std::vector<std::vector<double>> log_probabilities(const std::string& model,
                                                   const std::vector<int>& ids) {
  std::string list;
  for (const int id : ids) list += format("{}{}", list.empty() ? "" : ",", id);
  const std::string path = testing::temp_path("logits.safetensors");
  const Outcome run =
      octavo("logits " + model + " --token-ids " + list + " --positions all --output " + path);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string bytes = read_file(path);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  const size_t width = (bytes.size() - 8 - header) / 4 / ids.size();
  std::vector<std::vector<double>> rows(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < width; ++k) {
      float value = 0;
      std::memcpy(&value, bytes.data() + 8 + header + 4 * (i * width + k), 4);
      rows[i].push_back(value);
      sum += std::exp(static_cast<double>(value));
    }
    for (double& value : rows[i]) value -= std::log(sum);
  }
  return rows;
}

struct Window {
  size_t begin, size, first;  // the tokens from `first` on, within the window, are counted
};

Json eval(const std::string& arguments) {
  const Outcome run = octavo("eval " + arguments + " --json");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return parse_json(run.exit_code == 0 ? run.out : "{}", "eval").value();
}

std::string text_file(size_t count) {
  std::string path = testing::temp_path("text.txt");
  std::ofstream(path, std::ios::binary) << letters(count);
  return path;
}

void expect_perplexity(bool bos, const std::string& flags, const std::vector<Window>& windows) {
  SCOPED_TRACE(flags);
  const std::string model = letter_model(bos ? "bos" : "plain", bos);
  const std::string saved = testing::temp_path("nll.txt");
  const Json report = eval("perplexity " + model + " --text " + text_file(50) + " " + flags +
                           " --save-nll " + saved);
  std::ifstream saved_nlls(saved);
  double sum = 0;
  double squares = 0;
  double count = 0;
  const std::vector<int> ids = ids_of(letters(50), bos);
  for (const Window& window : windows) {
    std::vector<int> part(ids.begin() + window.begin, ids.begin() + window.begin + window.size);
    if (bos) part[0] = kBos;
    const auto rows = log_probabilities(model, part);
    for (size_t i = window.first; i < window.size; ++i) {
      const double nll = -rows[i - 1][part[i]];
      double saved_nll = 0;
      ASSERT_TRUE(saved_nlls >> saved_nll);
      EXPECT_NEAR(saved_nll, nll, 1e-5);
      sum += nll;
      squares += nll * nll;
      ++count;
    }
  }
  std::string more;
  EXPECT_FALSE(saved_nlls >> more) << more;
  std::filesystem::remove(saved);
  const double mean = sum / count;
  const double error = std::sqrt((squares / count - mean * mean) / (count - 1));
  EXPECT_EQ(report.at("tokens").as_int64(), count);
  EXPECT_EQ(report.at("windows"), windows.size());
  EXPECT_NEAR(report.at("nll").as_double(), mean, 1e-6);
  EXPECT_NEAR(report.at("nll_standard_error").as_double(), error, 1e-6);
  EXPECT_NEAR(report.at("perplexity").as_double(), std::exp(mean), 1e-5);
  EXPECT_NEAR(report.at("perplexity_standard_error").as_double(), std::exp(mean) * error, 1e-5);
}

TEST(CliEval, PerplexityIsTheSumOverLogits) {
  // The 50 tokens make three windows of 16; of each, tokens 9 to 15 are counted.
  expect_perplexity(false, "--ctx-size 16", {{0, 16, 9}, {16, 16, 9}, {32, 16, 9}});
  // 51 with the one that begins the text, which begins every window.
  expect_perplexity(true, "--ctx-size 17", {{0, 17, 9}, {17, 17, 9}, {34, 17, 9}});
}

TEST(CliEval, WindowsWithAStride) {
  // Windows of 14 + 10 / 2; the last ten tokens of each are counted.
  expect_perplexity(false, "--ctx-size 14 --stride 10",
                    {{0, 19, 9}, {10, 19, 9}, {20, 19, 9}, {30, 19, 9}});
}

TEST(CliEval, CompareIsTheSumOverLogits) {
  const std::string a = letter_model("a", false);
  const std::string b = changed_model();
  const Json report = eval("compare " + a + " " + b + " --ctx-size 16 --text " + text_file(50));
  std::vector<double> divergences;
  double same = 0;
  const std::vector<int> ids = ids_of(letters(50), false);
  for (const size_t begin : {0, 16, 32}) {
    const std::vector<int> part(ids.begin() + begin, ids.begin() + begin + 16);
    const auto p = log_probabilities(a, part);
    const auto q = log_probabilities(b, part);
    for (size_t i = 8; i < 15; ++i) {
      double sum = 0;
      for (size_t k = 0; k < p[i].size(); ++k) sum += std::exp(p[i][k]) * (p[i][k] - q[i][k]);
      divergences.push_back(sum);
      const auto best = [](const std::vector<double>& row) {
        return std::max_element(row.begin(), row.end()) - row.begin();
      };
      same += best(p[i]) == best(q[i]) ? 1 : 0;
    }
  }
  std::sort(divergences.begin(), divergences.end());
  double mean = 0;
  for (const double value : divergences) mean += value / 21;
  const Json& kl = report.at("kl_divergence");
  EXPECT_GT(mean, 1e-4);
  EXPECT_NEAR(kl.at("mean").as_double(), mean, 1e-6);
  EXPECT_NEAR(kl.at("median").as_double(), divergences[10], 1e-6);
  EXPECT_NEAR(kl.at("p99").as_double(), divergences[19] + 0.8 * (divergences[20] - divergences[19]),
              1e-6);
  EXPECT_NEAR(kl.at("max").as_double(), divergences[20], 1e-6);
  EXPECT_NEAR(report.at("top1_agreement").as_double(), same / 21, 1e-9);

  const Json itself = eval("compare " + a + " " + a + " --ctx-size 16 --text " + text_file(50));
  EXPECT_EQ(itself.at("kl_divergence").at("max").as_double(), 0);
  EXPECT_EQ(itself.at("top1_agreement").as_double(), 1);
  EXPECT_EQ(itself.at("a"), itself.at("b"));
}

TEST(CliEval, Refusals) {
  const std::string model = letter_model("model", false);
  const std::string text = text_file(50);
  const std::string perplexity = "eval perplexity " + model + " ";
  expect_failure(octavo("eval"), 2, "no measure");
  expect_failure(octavo("eval mmlu"), 2, "mmlu");
  expect_failure(octavo(perplexity), 2, "--text");
  expect_failure(octavo("eval compare " + model + " --text " + text), 2, "OTHER");
  expect_failure(octavo(perplexity + "--text /no/such/file"), 1, "/no/such/file");
  expect_failure(octavo(perplexity + "--text /"), 1, "/");
  expect_failure(octavo(perplexity + "--ctx-size 16 --save-nll /no/such/file --text " + text), 1,
                 "/no/such/file");
  expect_failure(octavo(perplexity + "--text " + text), 1, "50 tokens");
  expect_failure(octavo(perplexity + "--ctx-size 26 --text " + text), 1, "need 52");
  for (const char* size : {"1", "0", "-5", "9223372036854775807"}) {
    expect_failure(octavo(perplexity + "--ctx-size " + size + " --text " + text), 1, "--ctx-size");
  }
  for (const char* stride : {"-1", "32", "9223372036854775807"}) {
    expect_failure(octavo(perplexity + "--ctx-size 16 --text " + text + " --stride " + stride), 1,
                   "--stride");
  }
  const std::string other = letter_model("other", true);
  expect_failure(octavo("eval compare " + model + " " + other + " --ctx-size 16 --text " + text), 1,
                 "different tokens");
}

}  // namespace
}  // namespace octavo
