// HfModel: the `model` of a tokenizer.json, which turns a piece of text into ids: BPE, Unigram or
// WordPiece.
#pragma once

#include <string>
#include <variant>

#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/bpe.h"
#include "tokenizer/unigram.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_piece.h"

namespace octavo::tokenizer {

using HfModel = std::variant<BpeModel, UnigramModel, WordPieceModel>;

// `vocabulary` must be complete and outlive the model. A type or setting that is not known is
// kUnsupported by its name. `byte_level`: pieces are bytes. `source` starts every error.
Result<HfModel> read_hf_model(const Json& model, const Vocabulary& vocabulary, bool byte_level,
                              const std::string& source);

}  // namespace octavo::tokenizer
