#include "engine/output.h"

#include <algorithm>

namespace octavo::engine {

OutputStream::OutputStream(const Tokenizer* tokenizer, const Request& request)
    : stop_strings_(request.sampling.stop),
      stop_filter_(stop_strings_),
      include_stop_(request.sampling.include_stop_str_in_output),
      num_unstoppable_tokens_(request.sampling.min_tokens) {
  // A grammar reads every byte of the tokens.
  const bool keep_first_space = request.sampling.structured_outputs.has_value();
  if (tokenizer != nullptr) {
    detokenizer_.emplace(*tokenizer, request.show_special_tokens, keep_first_space);
  }
}

std::string OutputStream::push(TokenId id) {
  if (!detokenizer_) return "";
  const bool may_stop = num_unstoppable_tokens_ == 0;
  if (!may_stop) --num_unstoppable_tokens_;
  return filter(detokenizer_->push(id), may_stop);
}

// Is not called after a stop.
std::string OutputStream::filter(const std::string& text, bool may_stop) {
  std::string shown = stop_filter_.push(text, may_stop);
  if (include_stop_ && stop_hit() != nullptr) shown += *stop_hit();
  return shown;
}

std::string OutputStream::finish() {
  if (!detokenizer_) return "";
  std::string text = filter(detokenizer_->flush(), num_unstoppable_tokens_ == 0);
  return text + stop_filter_.flush();
}

const std::string* OutputStream::stop_hit() const {
  const auto index = stop_filter_.matched();
  return index ? &stop_strings_[*index] : nullptr;
}

bool is_stop_token(const Tokenizer* tokenizer, const Request& request, TokenId id) {
  const auto& own = request.sampling.stop_token_ids;
  if (std::find(own.begin(), own.end(), id) != own.end()) return true;
  if (tokenizer == nullptr || request.sampling.ignore_eos) return false;
  const auto stops = tokenizer->stop_ids();
  return std::binary_search(stops.begin(), stops.end(), id);
}

}  // namespace octavo::engine
