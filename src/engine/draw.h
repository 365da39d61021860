// Draw: what a step's rows of logits make of one completion: the next token, and further ones where
// drafts come true.
#pragma once

#include <cstdint>
#include <span>

#include "engine/completion.h"
#include "octavo/status.h"
#include "ops/mat.h"

namespace octavo::engine {

// The first row comes after all tokens of the completion, the others after a draft each: they count
// if all drafts before them were chosen.
struct Draw {
  Completion* completion;
  ops::Mat logits;                  // [num_rows, vocab_size]
  std::span<const TokenId> tokens;  // [num_rows]: where it is drawn already; else -1. Or empty
  Status status;
  int64_t num_taken = 0;  // tokens

  bool needs_logits() const;

  // Chooses and appends tokens, row by row. Draws may do so at the same time.
  void take_tokens(SamplerScratch& scratch);

 private:
  Status take_while_right(SamplerScratch& scratch);
};

}  // namespace octavo::engine
