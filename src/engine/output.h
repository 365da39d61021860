// OutputStream: sampled tokens -> text deltas: whole characters only, nothing of a stop string
// unless it is asked for, control tokens hidden.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "octavo/request.h"
#include "tokenizer/detokenizer.h"

namespace octavo::engine {

class OutputStream {
 public:
  // `tokenizer` may be null: then there is no text.
  OutputStream(const Tokenizer* tokenizer, const Request& request);

  // The text that this token made certain. Afterwards `stop_hit()` tells whether a stop string
  // ended the answer.
  std::string push(TokenId id);

  // What was held back, once no more tokens come.
  std::string finish();

  // The stop string that was found, or nullptr.
  const std::string* stop_hit() const;

 private:
  std::string filter(const std::string& text, bool may_stop);

  std::vector<std::string> stop_strings_;
  std::optional<tokenizer::Detokenizer> detokenizer_;
  tokenizer::StopStringFilter stop_filter_;
  bool include_stop_;
  int64_t num_unstoppable_tokens_;  // a stop string counts that ends after min_tokens, as in vLLM
};

// Whether `id` ends the answer of `request`.
bool is_stop_token(const Tokenizer* tokenizer, const Request& request, TokenId id);

}  // namespace octavo::engine
