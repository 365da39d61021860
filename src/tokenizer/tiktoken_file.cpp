#include "tokenizer/tiktoken_file.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/check.h"
#include "base/format.h"
#include "tokenizer/hf_text_model.h"
#include "tokenizer/hf_vocabulary.h"
#include "tokenizer/model_tokenizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace octavo::tokenizer {
namespace {

// Eight times the longest in use. Finding a token's parts takes the square of its length.
constexpr size_t kMaxTokenBytes = 1024;

// Control tokens in the order of their ids: one name, or `count` names with a number from `first`
// on behind the text.
struct Names {
  std::string_view text;
  int first = 0;
  int count = 0;
};

constexpr Names kLlama3Names[] = {
    {"<|begin_of_text|>"},
    {"<|end_of_text|>"},
    {"<|reserved_special_token_", 0, 2},
    {"<|finetune_right_pad_id|>"},
    {"<|step_id|>"},
    {"<|start_header_id|>"},
    {"<|end_header_id|>"},
    {"<|eom_id|>"},
    {"<|eot_id|>"},
    {"<|python_tag|>"},
    {"<|image|>"},
    {"<|reserved_special_token_", 2, 244},
};

constexpr Names kLlama4Names[] = {
    {"<|begin_of_text|>"},
    {"<|end_of_text|>"},
    {"<|fim_prefix|>"},
    {"<|fim_middle|>"},
    {"<|fim_suffix|>"},
    {"<|header_start|>"},
    {"<|header_end|>"},
    {"<|eom|>"},
    {"<|eot|>"},
    {"<|step|>"},
    {"<|text_post_train_reserved_special_token_", 0, 6},
    {"<|python_start|>"},
    {"<|python_end|>"},
    {"<|finetune_right_pad|>"},
    {"<|text_post_train_reserved_special_token_", 8, 61},
    {"<|image_start|>"},
    {"<|image_end|>"},
    {"<|vision_reserved_special_token_", 0, 2},
    {"<|tile_x_separator|>"},
    {"<|tile_y_separator|>"},
    {"<|vision_reserved_special_token_", 2, 4},
    {"<|image|>"},
    {"<|vision_reserved_special_token_", 6, 1},
    {"<|patch|>"},
    {"<|vision_reserved_special_token_", 7, 1041},
    {"<|reasoning_reserved_special_token_", 0, 8},
    {"<|reasoning_thinking_start|>"},
    {"<|reasoning_thinking_end|>"},
    {"<|reserved_special_token_", 0, 904},
};

constexpr std::string_view kLlama3Ends[] = {"<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"};
constexpr std::string_view kLlama4Ends[] = {"<|end_of_text|>", "<|eom|>", "<|eot|>"};

struct Family {
  size_t num_ranks;
  const char* pattern;  // what cuts text
  std::span<const Names> names;
  std::span<const std::string_view> ends;  // of an answer
};

constexpr Family kFamilies[] = {
    {128000, kLlama3Pattern, kLlama3Names, kLlama3Ends},
    {200000, kO200kPattern, kLlama4Names, kLlama4Ends},
};

// Fills pieces, bytes and kinds with one token a line, in the order of the ranks.
Status read_ranks(std::string_view file, Vocabulary& vocabulary, const std::string& source) {
  while (!file.empty()) {
    const size_t end = std::min(file.find('\n'), file.size());
    const std::string_view line = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    if (line.empty()) continue;
    const auto fail = [&](std::string_view what) {
      return data_loss(format("{}: token {}: {}", source, vocabulary.size(), what));
    };
    const size_t space = line.find(' ');
    const auto bytes = base64_decode(line.substr(0, space));
    if (!bytes || bytes->empty()) return fail("no bytes in Base64");
    if (bytes->size() > kMaxTokenBytes) return fail(format("{} bytes", bytes->size()));
    size_t rank = 0;
    const std::string_view number = space == line.npos ? "" : line.substr(space + 1);
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (error != std::errc() || stop != number.data() + number.size()) return fail("no rank");
    if (rank != vocabulary.size()) return fail(format("the rank is {}", rank));
    vocabulary.pieces.add(*bytes);
    vocabulary.bytes.add(*bytes);
    vocabulary.text_tokens.push_back(static_cast<TokenId>(rank));
    vocabulary.kinds.push_back(TokenKind::kNormal);
  }
  return {};
}

void add_control_tokens(std::span<const Names> names, Vocabulary& vocabulary) {
  const auto add = [&](std::string_view text) {
    vocabulary.pieces.add(text);
    vocabulary.bytes.add(text);
    vocabulary.kinds.push_back(TokenKind::kControl);
  };
  for (const Names& row : names) {
    if (row.count == 0) add(row.text);
    for (int i = 0; i < row.count; ++i) add(format("{}{}|>", row.text, row.first + i));
  }
}

// Any two tokens that together are a third merge, by its rank.
MergeTable merges_of_ranks(const Vocabulary& vocabulary) {
  StringIndex index(vocabulary.bytes, vocabulary.text_tokens.size());
  for (const TokenId id : vocabulary.text_tokens) index.insert(id);
  struct Pair {
    TokenId left;
    TokenId right;
    TokenId result;
  };
  std::vector<Pair> pairs;
  for (const TokenId id : vocabulary.text_tokens) {
    const std::string_view bytes = vocabulary.bytes[static_cast<size_t>(id)];
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const TokenId left = index.find(bytes.substr(0, cut));
      const TokenId right = left == kNoToken ? kNoToken : index.find(bytes.substr(cut));
      if (right != kNoToken) pairs.push_back({left, right, id});
    }
  }
  MergeTable merges(pairs.size());
  for (const Pair& pair : pairs) {
    merges.insert(pair.left, pair.right, {static_cast<uint32_t>(pair.result), pair.result});
  }
  return merges;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tiktoken_tokenizer(std::string_view file,
                                                           const HfConfig& config,
                                                           const std::string& source) {
  auto vocabulary = std::make_unique<Vocabulary>();
  OCTAVO_TRY(read_ranks(file, *vocabulary, source));
  const auto* family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [&](const Family& row) { return row.num_ranks == vocabulary->size(); });
  if (family == std::end(kFamilies)) {
    return unsupported(format("{}: no known model has a tiktoken vocabulary of {} tokens", source,
                              vocabulary->size()));
  }
  add_control_tokens(family->names, *vocabulary);
  vocabulary->bos = static_cast<TokenId>(family->num_ranks);
  vocabulary->eos = vocabulary->bos + 1;
  vocabulary->prefix = {vocabulary->bos};
  for (const std::string_view end : family->ends) {
    vocabulary->stop_ids.push_back(find_piece(*vocabulary, end));
  }
  OCTAVO_TRY(apply_hf_config(config, *vocabulary));
  BpeModel bpe(*vocabulary, merges_of_ranks(*vocabulary), {.ignore_merges = true});
  auto text_model = std::make_unique<HfTextModel>(
      Normalizer(), SpecialTokens(*vocabulary, {}),
      OCTAVO_TRY(HfPreTokenizer::byte_level({&family->pattern, 1}, source)), std::move(bpe));
  return std::unique_ptr<Tokenizer>(std::make_unique<ModelTokenizer>(
      std::move(vocabulary), std::move(text_model), read_chat_template(config)));
}

}  // namespace octavo::tokenizer
