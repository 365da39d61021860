#include "tokenizer/pre_tokenizer.h"

namespace octavo::tokenizer {
namespace {

constexpr FindMatch kGpt2Stages[] = {find_gpt2};
constexpr FindMatch kDigitsGpt2Stages[] = {find_number, find_gpt2};
constexpr FindMatch kLlama3Stages[] = {find_llama3};
constexpr FindMatch kQwen2Stages[] = {find_qwen2};
constexpr FindMatch kDeepseekCoderStages[] = {find_newline, find_spaced_letters,
                                              find_spaced_punctuation, find_cjk, find_number};
// What files of before the key existed were read with.
constexpr FindMatch kDefaultStages[] = {find_punctuation, find_gpt2, find_numbers,
                                        find_three_digits};

constexpr PreTokenizer kGpt2{kGpt2Stages};
constexpr PreTokenizer kGpt2Nfc{.stages = kGpt2Stages, .nfc = true};
constexpr PreTokenizer kDigitsGpt2{kDigitsGpt2Stages};
constexpr PreTokenizer kDigitsGpt2Nfc{.stages = kDigitsGpt2Stages, .nfc = true};
constexpr PreTokenizer kLlama3{.stages = kLlama3Stages, .ignore_merges = true, .add_bos = true};
constexpr PreTokenizer kLlama3Merges{kLlama3Stages};
constexpr PreTokenizer kQwen2{.stages = kQwen2Stages, .nfc = true};
constexpr PreTokenizer kDeepseekCoder{kDeepseekCoderStages};
constexpr PreTokenizer kDefault{kDefaultStages};

struct Row {
  std::string_view name;
  const PreTokenizer& pre_tokenizer;
};

constexpr Row kTable[] = {
    {"default", kDefault},
    // GPT-2
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"jais", kGpt2},
    {"exaone4", kGpt2},
    {"trillion", kGpt2},
    {"mellum", kGpt2},
    {"mpt", kGpt2Nfc},
    {"olmo", kGpt2Nfc},
    {"modern-bert", kGpt2Nfc},
    // each digit alone, then GPT-2
    {"smollm", kDigitsGpt2},
    {"starcoder", kDigitsGpt2},
    {"refact", kDigitsGpt2},
    {"codeshell", kDigitsGpt2},
    {"exaone", kDigitsGpt2},
    {"minerva-7b", kDigitsGpt2},
    {"command-r", kDigitsGpt2Nfc},
    // Llama 3
    {"llama-bpe", kLlama3},
    {"llama3", kLlama3},
    {"llama-v3", kLlama3},
    {"falcon3", kLlama3},
    {"falcon-h1", kLlama3},
    {"pixtral", kLlama3},
    {"lfm2", kLlama3},
    {"midm-2.0", kLlama3},
    {"smaug-bpe", kLlama3Merges},
    {"dbrx", kLlama3Merges},
    {"glm4", kLlama3Merges},
    {"chatglm-bpe", kLlama3Merges},
    // Qwen 2
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    // DeepSeek
    {"deepseek-coder", kDeepseekCoder},
};

constexpr const char* kTekkenPatterns[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kQwen35Patterns[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kDeepseekV3Patterns[] = {
    R"(\p{N}{1,3})", "[一-龥\u3040-ゟ゠-ヿ]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr const char* kSeedCoderPatterns[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1})"
    R"(| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kMinicpm5Patterns[] = {
    R"(\p{N}{1,3})",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kBloomPattern = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr const char* kBloomPatterns[] = {kBloomPattern};
constexpr const char* kVikingPatterns[] = {kBloomPattern, R"(\p{N})"};

constexpr const char* kO200kPatterns[] = {kO200kPattern};
constexpr RegexPreTokenizer kO200k{kO200kPatterns};
constexpr RegexPreTokenizer kTekken{
    .patterns = kTekkenPatterns, .ignore_merges = true, .add_bos = true};
constexpr RegexPreTokenizer kQwen35{.patterns = kQwen35Patterns, .nfc = true};
constexpr RegexPreTokenizer kDeepseekV3{kDeepseekV3Patterns};
constexpr RegexPreTokenizer kSeedCoder{kSeedCoderPatterns};
constexpr RegexPreTokenizer kMinicpm5{.patterns = kMinicpm5Patterns, .ignore_merges = true};
constexpr RegexPreTokenizer kBloom{kBloomPatterns};
constexpr RegexPreTokenizer kViking{kVikingPatterns};

struct RegexRow {
  std::string_view name;
  const RegexPreTokenizer& pre_tokenizer;
};

constexpr RegexRow kRegexTable[] = {
    {"gpt-4o", kO200k},
    {"llama4", kO200k},
    {"minimax-m2", kO200k},
    {"tekken", kTekken},
    {"qwen35", kQwen35},
    {"deepseek-v3", kDeepseekV3},
    {"hunyuan-dense", kDeepseekV3},
    {"seed-coder", kSeedCoder},
    {"minicpm5", kMinicpm5},
    {"bloom", kBloom},
    {"poro-chat", kBloom},
    {"gpt3-finnish", kBloom},
    {"viking", kViking},
};

}  // namespace

const RegexPreTokenizer* find_regex_pre_tokenizer(std::string_view name) {
  for (const RegexRow& row : kRegexTable) {
    if (row.name == name) return &row.pre_tokenizer;
  }
  return nullptr;
}

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const Row& row : kTable) {
    if (row.name == name) return &row.pre_tokenizer;
  }
  return nullptr;
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kTable) names.push_back(row.name);
  for (const RegexRow& row : kRegexTable) names.push_back(row.name);
  return names;
}

}  // namespace octavo::tokenizer
