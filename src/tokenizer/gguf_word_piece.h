// The WordPiece vocabulary of a GGUF file, `tokenizer.ggml.model` = "bert".
#pragma once

#include <memory>

#include "tokenizer/gguf_vocabulary.h"
#include "tokenizer/text_model.h"

namespace octavo::tokenizer {

// Completes `vocabulary`, which has pieces and kinds and must outlive the model.
Result<std::unique_ptr<TextModel>> load_gguf_word_piece(const GgufSource& source,
                                                        Vocabulary& vocabulary);

}  // namespace octavo::tokenizer
