#include "cli/load_samples.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/trace.h"

namespace octavo::cli {
namespace {

// Enough words that prompts do not share prefixes by chance.
constexpr size_t kEnoughWords = 1000;

// Conversations that `vllm bench serve` leaves out of a ShareGPT file too.
constexpr int64_t kMinShareGptTokens = 4;
constexpr int64_t kMaxShareGptPrompt = 1024;
constexpr int64_t kMaxShareGptTotal = 2048;

// " word": texts made of these fall into the same tokens again.
bool is_word(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == ' ' &&
         std::all_of(bytes.begin() + 1, bytes.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

Result<std::vector<LoadSample>> random_samples(const DatasetOptions& options, TextMaker& maker) {
  const auto spread = [&](int64_t len) {
    const double ratio = options.random_range_ratio;
    return maker.pick(
        std::max<int64_t>(1, std::llround(std::floor(static_cast<double>(len) * (1 - ratio)))),
        std::max<int64_t>(1, std::llround(std::ceil(static_cast<double>(len) * (1 + ratio)))));
  };
  std::string prefix;
  if (options.random_prefix_len > 0) prefix = OCTAVO_TRY(maker.text(options.random_prefix_len));
  std::vector<LoadSample> samples;
  for (int64_t i = 0; i < options.num_prompts; ++i) {
    LoadSample sample;
    sample.prompt = prefix + OCTAVO_TRY(maker.text(spread(options.random_input_len)));
    sample.output_len = spread(options.random_output_len);
    samples.push_back(std::move(sample));
  }
  return samples;
}

Result<std::vector<LoadSample>> prefix_samples(const DatasetOptions& options, TextMaker& maker) {
  std::vector<std::string> prefixes;
  for (int64_t i = 0; i < options.num_prefixes; ++i) {
    prefixes.push_back(OCTAVO_TRY(maker.text(options.prefix_len)));
  }
  std::vector<LoadSample> samples;
  for (int64_t i = 0; i < options.num_prompts; ++i) {
    LoadSample sample;
    sample.prompt = prefixes[static_cast<size_t>(i) % prefixes.size()] +
                    OCTAVO_TRY(maker.text(options.suffix_len));
    sample.output_len = options.prefix_output_len;
    samples.push_back(std::move(sample));
  }
  for (size_t i = samples.size(); i > 1; --i) {
    std::swap(samples[i - 1], samples[maker.pick(0, static_cast<int64_t>(i) - 1)]);
  }
  return samples;
}

Result<std::vector<LoadSample>> sharegpt_samples(const DatasetOptions& options, TextMaker& maker) {
  std::ifstream file(options.path, std::ios::binary);
  if (!file) return not_found(format("{}: cannot be read", options.path));
  std::ostringstream text;
  text << file.rdbuf();
  const Json json = OCTAVO_TRY(parse_json(text.str(), options.path));
  if (!json.is_array()) return data_loss(format("{}: is no array", options.path));
  const JsonArray& entries = json.get_array();
  std::vector<size_t> order(entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[maker.pick(0, static_cast<int64_t>(i) - 1)]);
  }
  std::vector<LoadSample> samples;
  for (const size_t idx : order) {
    if (static_cast<int64_t>(samples.size()) == options.num_prompts) break;
    const std::string source = format("{}[{}]", options.path, idx);
    const JsonArray& turns = *OCTAVO_TRY(json_array(entries[idx], "conversations", source));
    if (turns.size() < 2) continue;
    LoadSample sample;
    sample.prompt = OCTAVO_TRY(json_string(turns[0], "value", source));
    const std::string answer = OCTAVO_TRY(json_string(turns[1], "value", source));
    sample.prompt_len = OCTAVO_TRY(maker.count(sample.prompt));
    sample.output_len = OCTAVO_TRY(maker.count(answer));
    if (options.sharegpt_output_len) sample.output_len = *options.sharegpt_output_len;
    if (sample.prompt_len < kMinShareGptTokens || sample.prompt_len > kMaxShareGptPrompt ||
        (!options.sharegpt_output_len && sample.output_len < kMinShareGptTokens) ||
        sample.prompt_len + sample.output_len > kMaxShareGptTotal) {
      continue;
    }
    samples.push_back(std::move(sample));
  }
  if (samples.empty()) return data_loss(format("{}: holds no conversation to use", options.path));
  for (size_t i = 0; static_cast<int64_t>(samples.size()) < options.num_prompts; ++i) {
    samples.push_back(LoadSample(samples[i]));
  }
  return samples;
}

Result<std::vector<LoadSample>> trace_samples(const DatasetOptions& options, TextMaker& maker) {
  const auto& ids = maker.ordinary_ids();
  std::vector<LoadSample> samples;
  int64_t index = 0;
  for (const TraceRequest& request : OCTAVO_TRY(read_trace(options.path, options.num_prompts))) {
    const int64_t total = request.input_length + request.output_length;
    if (options.max_model_len > 0 && total > options.max_model_len) continue;
    LoadSample sample;
    sample.token_ids = make_prompt(request, index++);
    for (TokenId& id : sample.token_ids) id = ids[static_cast<size_t>(id) % ids.size()];
    sample.prompt_len = request.input_length;
    sample.output_len = request.output_length;
    sample.arrival_s = request.arrival_s;
    samples.push_back(std::move(sample));
  }
  if (samples.empty()) {
    return invalid_argument(
        format("{}: no request fits into {} tokens", options.path, options.max_model_len));
  }
  return samples;
}

}  // namespace

TextMaker::TextMaker(const Tokenizer& tokenizer, uint64_t seed)
    : tokenizer_(tokenizer), rng_(seed) {
  std::vector<TokenId> words;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_control(id)) continue;
    const std::string bytes = tokenizer.token_bytes(id, false);
    if (bytes.empty() || !utf8_is_valid(bytes)) continue;
    ordinary_ids_.push_back(id);
    if (is_word(bytes)) words.push_back(id);
  }
  if (words.size() >= kEnoughWords) ordinary_ids_ = std::move(words);
}

int64_t TextMaker::pick(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng_.next_double() * static_cast<double>(high - low + 1));
}

Result<int64_t> TextMaker::count(const std::string& text) const {
  const auto ids = OCTAVO_TRY(tokenizer_.encode(text, {.add_special = true}));
  return static_cast<int64_t>(ids.size());
}

// Tokens to text and back, cut or lengthened until the length is right.
Result<std::string> TextMaker::text(int64_t len) {
  constexpr int kMaxRounds = 10;
  std::vector<TokenId> ids;
  std::string text;
  for (int round = 0; round < kMaxRounds; ++round) {
    ids.resize(std::min(ids.size(), static_cast<size_t>(len)));
    while (static_cast<int64_t>(ids.size()) < len) {
      const auto last = static_cast<int64_t>(ordinary_ids_.size()) - 1;
      ids.push_back(ordinary_ids_[static_cast<size_t>(pick(0, last))]);
    }
    text = OCTAVO_TRY(tokenizer_.decode(ids, false));
    ids = OCTAVO_TRY(tokenizer_.encode(text, {.add_special = false}));
    if (static_cast<int64_t>(ids.size()) == len) break;
  }
  return text;
}

Result<std::vector<LoadSample>> make_samples(const DatasetOptions& options,
                                             const Tokenizer& tokenizer) {
  TextMaker maker(tokenizer, static_cast<uint64_t>(options.seed));
  if (maker.ordinary_ids().empty()) return invalid_argument("the vocabulary has no text");
  if (options.name == "sharegpt") return sharegpt_samples(options, maker);
  if (options.name == "trace") return trace_samples(options, maker);
  auto samples = OCTAVO_TRY(options.name == "random" ? random_samples(options, maker)
                                                     : prefix_samples(options, maker));
  for (LoadSample& sample : samples) sample.prompt_len = OCTAVO_TRY(maker.count(sample.prompt));
  return samples;
}

}  // namespace octavo::cli
