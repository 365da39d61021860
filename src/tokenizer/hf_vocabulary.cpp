#include "tokenizer/hf_vocabulary.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/byte_level.h"

namespace octavo::tokenizer {
namespace {

struct AddedToken {
  TokenId id;
  std::string_view content;
  bool special;
  MatchRules rules;
};

// The pieces by id, as they are found.
class Pieces {
 public:
  // `count` tokens are named at most; ids may leave some holes, but not ask for memory that the
  // file does not stand for.
  explicit Pieces(size_t count) : limit_(2 * count + 1024) {}

  Status set(int64_t id, std::string_view piece, const std::string& where) {
    if (id < 0 || id >= static_cast<int64_t>(limit_)) {
      return data_loss(format("{}: '{}' has the id {}, not 0 to {}", where, piece, id, limit_ - 1));
    }
    const auto i = static_cast<size_t>(id);
    if (i >= pieces_.size()) pieces_.resize(i + 1);
    if (pieces_[i] && *pieces_[i] != piece) {
      return data_loss(
          format("{}: '{}' and '{}' both have the id {}", where, *pieces_[i], piece, id));
    }
    pieces_[i] = piece;
    return {};
  }

  const std::vector<std::optional<std::string_view>>& all() const { return pieces_; }

 private:
  size_t limit_;
  std::vector<std::optional<std::string_view>> pieces_;
};

// The pieces of `model.vocab`: an object from piece to id, or, of Unigram, an array of pairs of a
// piece and its score, whose ids are the indices.
Result<std::vector<std::pair<std::string_view, int64_t>>> read_vocab(const Json& model,
                                                                     const std::string& source) {
  const Json* vocab = json_find(model, "vocab");
  if (vocab == nullptr) return data_loss(source + ": 'model.vocab' is missing");
  std::vector<std::pair<std::string_view, int64_t>> rows;
  if (const JsonArray* pairs = vocab->if_array()) {
    for (const Json& pair : *pairs) {
      const JsonArray* parts = pair.if_array();
      if (parts == nullptr || parts->size() != 2 || !(*parts)[0].is_string()) {
        return data_loss(
            format("{}: 'model.vocab'[{}] is not a piece and a score", source, rows.size()));
      }
      rows.emplace_back(to_view((*parts)[0].get_string()), rows.size());
    }
  } else if (const JsonObject* ids = vocab->if_object()) {
    for (const auto& entry : *ids) {
      const std::string_view piece(entry.key().data(), entry.key().size());
      boost::system::error_code error;
      const auto id = entry.value().to_number<int64_t>(error);
      if (error || entry.value().is_double()) {
        return data_loss(
            format("{}: 'model.vocab': the id of '{}' is not an integer", source, piece));
      }
      rows.emplace_back(piece, id);
    }
  } else {
    return data_loss(source + ": 'model.vocab' must be an object or an array");
  }
  if (rows.empty()) return data_loss(source + ": 'model.vocab' is empty");
  return rows;
}

Result<AddedToken> read_added_token(const Json& json, const std::string& where) {
  AddedToken token{};
  const int64_t id = OCTAVO_TRY(json_int(json, "id", where));
  if (id < 0 || id > INT32_MAX) return data_loss(format("{}: 'id' is {}", where, id));
  token.id = static_cast<TokenId>(id);
  const Json* content = json_find(json, "content");
  if (content == nullptr || !content->is_string()) {
    return data_loss(where + ": 'content' must be a string");
  }
  token.content = to_view(content->get_string());
  const auto flag = [&](const char* key) -> Result<bool> {
    if (json_find(json, key) == nullptr) return false;
    return json_bool(json, key, where);
  };
  token.special = OCTAVO_TRY(flag("special"));
  token.rules.strip_left = OCTAVO_TRY(flag("lstrip"));
  token.rules.strip_right = OCTAVO_TRY(flag("rstrip"));
  token.rules.single_word = OCTAVO_TRY(flag("single_word"));
  token.rules.normalized = OCTAVO_TRY(flag("normalized"));
  return token;
}

Result<std::vector<AddedToken>> read_added_tokens(const Json& json, const std::string& source) {
  std::vector<AddedToken> tokens;
  if (json_find(json, "added_tokens") == nullptr) return tokens;
  for (const Json& token : *OCTAVO_TRY(json_array(json, "added_tokens", source))) {
    const std::string where = format("{}: 'added_tokens'[{}]", source, tokens.size());
    tokens.push_back(OCTAVO_TRY(read_added_token(token, where)));
  }
  return tokens;
}

}  // namespace

Result<Vocabulary> read_hf_vocabulary(const Json& tokenizer_json, const std::string& source) {
  const Json* model = json_find(tokenizer_json, "model");
  if (model == nullptr) return data_loss(source + ": 'model' is missing");
  const auto vocab = OCTAVO_TRY(read_vocab(*model, source));
  const std::vector<AddedToken> added = OCTAVO_TRY(read_added_tokens(tokenizer_json, source));

  Vocabulary vocabulary;
  Pieces pieces(vocab.size() + added.size());
  const std::string where = source + ": 'model.vocab'";
  for (const auto& [piece, id] : vocab) {
    OCTAVO_TRY(pieces.set(id, piece, where));
    vocabulary.text_tokens.push_back(static_cast<TokenId>(id));
  }
  for (const AddedToken& token : added) {
    OCTAVO_TRY(pieces.set(token.id, token.content, source + ": 'added_tokens'"));
  }
  std::sort(vocabulary.text_tokens.begin(), vocabulary.text_tokens.end());

  for (const auto& piece : pieces.all()) {
    vocabulary.pieces.add(piece.value_or(""));
    vocabulary.kinds.push_back(piece ? TokenKind::kNormal : TokenKind::kUnused);
  }
  for (const AddedToken& token : added) {
    vocabulary.kinds[static_cast<size_t>(token.id)] =
        token.special ? TokenKind::kControl : TokenKind::kUserDefined;
    vocabulary.match_rules[token.id] = token.rules;
  }
  return vocabulary;
}

// A user-defined token that the model has too can also come of merges, where it is spelled as
// what it stands for.
void fill_byte_level_bytes(Vocabulary& vocabulary) {
  const std::vector<TokenId> of_model = std::exchange(vocabulary.text_tokens, {});
  auto next_of_model = of_model.begin();
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view piece = vocabulary.pieces[i];
    const bool in_model = next_of_model != of_model.end() && *next_of_model == id;
    if (in_model) ++next_of_model;
    std::optional<std::string> spelled;
    if (in_model && !vocabulary.is_control(id)) spelled = bytes_of_spelling(piece);
    const bool is_text = spelled && (!vocabulary.is_user_defined(id) || *spelled == piece);
    vocabulary.bytes.add(is_text ? std::string_view(*spelled) : piece);
    if (is_text && !piece.empty()) vocabulary.text_tokens.push_back(id);
  }
}

void fill_spelled_bytes(Vocabulary& vocabulary, const HfDecoder& decoder) {
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const std::string_view piece = vocabulary.pieces[i];
    const bool is_control = vocabulary.is_control(static_cast<TokenId>(i));
    vocabulary.bytes.add(is_control ? std::string(piece) : decoder.bytes_of(piece));
  }
  std::erase_if(vocabulary.text_tokens, [&](TokenId id) {
    return vocabulary.is_control(id) || vocabulary.pieces[static_cast<size_t>(id)].empty();
  });
  vocabulary.space_prefix = decoder.strips_first_space();
}

TokenId find_piece(const Vocabulary& vocabulary, std::string_view piece) {
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    if (!piece.empty() && vocabulary.pieces[i] == piece) return static_cast<TokenId>(i);
  }
  return kNoToken;
}

}  // namespace octavo::tokenizer
