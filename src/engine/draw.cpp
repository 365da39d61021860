#include "engine/draw.h"

#include <algorithm>
#include <exception>

#include "base/check.h"

namespace octavo::engine {

bool Draw::needs_logits() const {
  return tokens.empty() ||
         std::any_of(tokens.begin(), tokens.end(), [](TokenId id) { return id < 0; });
}

Status Draw::take_while_right(SamplerScratch& scratch) {
  for (int64_t row = 0; row < logits.rows; ++row) {
    if (const TokenId id = tokens.empty() ? -1 : tokens[row]; id >= 0) {
      completion->take_token(id);
    } else {
      OCTAVO_TRY(completion->choose_token(
          {logits.row<float>(row), static_cast<size_t>(logits.cols)}, scratch));
    }
    completion->append_token();
    ++num_taken;
    if (completion->finished() || row + 1 == logits.rows) break;
    if (completion->token_ids.back() != completion->draft_token_ids[row]) break;
  }
  return {};
}

// What it throws (memory is short) must not leave a thread of the pool.
void Draw::take_tokens(SamplerScratch& scratch) {
  try {
    status = take_while_right(scratch);
  } catch (const std::exception& error) {
    status = internal_error(error.what());
  }
}

}  // namespace octavo::engine
