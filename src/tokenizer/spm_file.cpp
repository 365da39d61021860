#include "tokenizer/spm_file.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/model_tokenizer.h"
#include "tokenizer/protobuf_reader.h"
#include "tokenizer/spm_text_model.h"

namespace octavo::tokenizer {
namespace {

constexpr int64_t kMaxPieces = int64_t{1} << 24;

// The fields that are read, by their numbers in SentencePiece's messages.
enum ModelField : uint8_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3 };
enum PieceField : uint8_t { kText = 1, kScore = 2, kType = 3 };
enum TrainerField : uint8_t { kModelType = 3, kSpaceAsSuffix = 24, kBosId = 41, kEosId = 42 };
enum NormalizerField : uint8_t {
  kCharsMap = 2,
  kAddDummyPrefix = 3,
  kRemoveExtraWhitespaces = 4,
  kEscapeWhitespaces = 5
};
enum ModelType : uint8_t { kUnigram = 1, kBpe = 2 };

struct SpmFile {
  Vocabulary vocabulary;
  std::vector<float> scores;
  uint64_t model_type = kUnigram;
  int64_t bos = 1;
  int64_t eos = 2;
  SpmNormalizer normalizer{.prefix = SpmNormalizer::Prefix::kNotAfterText,
                           .remove_extra_whitespaces = true};
};

class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  Result<SpmFile> read(std::string_view file) {
    OCTAVO_TRY(for_each_field(file, "the model", [&](const ProtobufReader::Field& field) -> Status {
      if (field.number == kPieces) return read_piece(field.bytes);
      if (field.number == kTrainerSpec) return read_trainer(field.bytes);
      if (field.number == kNormalizerSpec) return read_normalizer(field.bytes);
      return {};
    }));
    if (file_.vocabulary.size() == 0) return data_loss(source_ + ": holds no pieces");
    return std::move(file_);
  }

 private:
  template <typename Visit>
  Status for_each_field(std::string_view message, const std::string& what, Visit visit) const {
    ProtobufReader reader(message);
    while (const auto field = reader.next()) OCTAVO_TRY(visit(*field));
    if (reader.failed()) return data_loss(format("{}: {} is no valid protobuf", source_, what));
    return {};
  }

  Status read_piece(std::string_view message) {
    const std::string what = format("piece {}", file_.vocabulary.size());
    std::string_view text;
    float score = 0;
    uint64_t type = static_cast<uint64_t>(TokenKind::kNormal);
    OCTAVO_TRY(for_each_field(message, what, [&](const ProtobufReader::Field& field) -> Status {
      if (field.number == kText) text = field.bytes;
      if (field.number == kScore) score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      if (field.number == kType) type = field.value;
      return {};
    }));
    if (text.empty()) return data_loss(format("{}: {} is empty", source_, what));
    if (!std::isfinite(score)) return data_loss(format("{}: {}: no finite score", source_, what));
    if (type < 1 || type > static_cast<uint64_t>(TokenKind::kByte)) {
      return data_loss(format("{}: {} has the type {}", source_, what, type));
    }
    file_.vocabulary.pieces.add(text);
    file_.vocabulary.kinds.push_back(static_cast<TokenKind>(type));
    file_.scores.push_back(score);
    return {};
  }

  Status read_trainer(std::string_view message) {
    return for_each_field(message, "trainer_spec", [&](const ProtobufReader::Field& field) {
      if (field.number == kModelType) file_.model_type = field.value;
      if (field.number == kSpaceAsSuffix) file_.normalizer.prefix_is_suffix = field.value != 0;
      if (field.number == kBosId) file_.bos = static_cast<int32_t>(field.value);
      if (field.number == kEosId) file_.eos = static_cast<int32_t>(field.value);
      return Status();
    });
  }

  Status read_normalizer(std::string_view message) {
    const auto read = [&](const ProtobufReader::Field& field) -> Status {
      if (field.number == kCharsMap && !field.bytes.empty()) {
        const std::string where = source_ + ": precompiled_charsmap";
        file_.normalizer.map = OCTAVO_TRY(CharsMap::parse(field.bytes, where));
      }
      if (field.number == kAddDummyPrefix && field.value == 0) {
        file_.normalizer.prefix = SpmNormalizer::Prefix::kNever;
      }
      if (field.number == kRemoveExtraWhitespaces) {
        file_.normalizer.remove_extra_whitespaces = field.value != 0;
      }
      if (field.number == kEscapeWhitespaces && field.value == 0) {
        return unsupported(source_ + ": escape_whitespaces is false");
      }
      return {};
    };
    return for_each_field(message, "normalizer_spec", read);
  }

  const std::string& source_;
  SpmFile file_;
};

// Tokens that the config adds to those of the file, or that it says more about.
Status read_added_tokens(const HfConfig& config, SpmFile& file) {
  constexpr const char* kKey = "added_tokens_decoder";
  const Json* added =
      config.tokenizer_config == nullptr ? nullptr : json_find(*config.tokenizer_config, kKey);
  if (added == nullptr) return {};
  const std::string where = format("{}: '{}'", config.tokenizer_config_path, kKey);
  if (!added->is_object()) return data_loss(where + " must be an object");
  std::map<int64_t, const Json*> by_id;
  for (const auto& entry : added->get_object()) {
    const std::string_view key(entry.key().data(), entry.key().size());
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= kMaxPieces) {
      return data_loss(format("{}: '{}' is no id", where, key));
    }
    by_id[id] = &entry.value();
  }
  Vocabulary& vocabulary = file.vocabulary;
  for (const auto& [id, token] : by_id) {
    const std::string text = OCTAVO_TRY(json_string(*token, "content", where));
    const bool special =
        json_find(*token, "special") != nullptr && OCTAVO_TRY(json_bool(*token, "special", where));
    const auto i = static_cast<size_t>(id);
    if (i > vocabulary.size()) {
      return data_loss(format("{}: token {} follows {}", where, id, vocabulary.size() - 1));
    }
    if (i == vocabulary.size()) {
      vocabulary.pieces.add(text);
      vocabulary.kinds.push_back(TokenKind::kNormal);
      file.scores.push_back(0);
    } else if (vocabulary.pieces[i] != text) {
      return data_loss(
          format("{}: token {} is '{}', not '{}'", where, id, vocabulary.pieces[i], text));
    }
    if (vocabulary.kinds[i] == TokenKind::kUnknown) continue;
    vocabulary.kinds[i] = special ? TokenKind::kControl : TokenKind::kUserDefined;
  }
  return {};
}

// The id, where the vocabulary has it as a control token.
TokenId control_token(const Vocabulary& vocabulary, int64_t id) {
  if (id < 0 || id >= static_cast<int64_t>(vocabulary.size())) return kNoToken;
  const auto token = static_cast<TokenId>(id);
  return vocabulary.is_control(token) ? token : kNoToken;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_spm_tokenizer(std::string_view file, const HfConfig& config,
                                                      const std::string& source) {
  SpmFile read = OCTAVO_TRY(Reader(source).read(file));
  if (read.model_type != kUnigram && read.model_type != kBpe) {
    return unsupported(
        format("{}: model_type {} is neither Unigram nor BPE", source, read.model_type));
  }
  OCTAVO_TRY(read_added_tokens(config, read));
  auto vocabulary = std::make_unique<Vocabulary>(std::move(read.vocabulary));
  vocabulary->bos = control_token(*vocabulary, read.bos);
  vocabulary->eos = control_token(*vocabulary, read.eos);
  if (vocabulary->bos != kNoToken) vocabulary->prefix = {vocabulary->bos};
  for (size_t i = 0; i < vocabulary->size(); ++i) {
    if (vocabulary->kinds[i] == TokenKind::kUnknown) vocabulary->unknown = static_cast<TokenId>(i);
  }
  OCTAVO_TRY(apply_hf_config(config, *vocabulary));
  vocabulary->space_prefix =
      read.normalizer.prefix != SpmNormalizer::Prefix::kNever && !read.normalizer.prefix_is_suffix;
  fill_spm_bytes(*vocabulary);
  SpmTextModel::Model model =
      read.model_type == kUnigram
          ? SpmTextModel::Model(make_spm_unigram(*vocabulary, read.scores))
          : SpmTextModel::Model(SpmModel(*vocabulary, std::move(read.scores), vocabulary->unknown));
  auto text_model = std::make_unique<SpmTextModel>(std::move(read.normalizer), std::move(model));
  return std::unique_ptr<Tokenizer>(std::make_unique<ModelTokenizer>(
      std::move(vocabulary), std::move(text_model), read_chat_template(config)));
}

}  // namespace octavo::tokenizer
