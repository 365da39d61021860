// The prompts of `octavo bench serve`: random tokens, conversations of a ShareGPT file, a trace, or
// groups that share a prefix. The same seed gives the same prompts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo::cli {

struct DatasetOptions {
  std::string name = "random";  // random, sharegpt, trace, prefix_repetition
  std::string path;             // of sharegpt and trace
  int64_t num_prompts = 1000;
  int64_t seed = 0;

  int64_t random_input_len = 1024;
  int64_t random_output_len = 128;
  int64_t random_prefix_len = 0;  // tokens before the input that all prompts share
  double random_range_ratio = 0;  // [0, 1): lengths vary by that share to either side

  std::optional<int64_t> sharegpt_output_len;  // else the length of the conversation's own answer

  int64_t prefix_len = 256;
  int64_t suffix_len = 256;
  int64_t num_prefixes = 10;
  int64_t prefix_output_len = 128;

  int64_t max_model_len = 0;  // requests of a trace that are longer are left out; 0: no limit
};

struct LoadSample {
  std::string prompt;
  std::vector<TokenId> token_ids;  // in place of a text where not empty
  int64_t prompt_len = 0;          // tokens
  int64_t output_len = 0;
  double arrival_s = 0;  // of a trace
};

Result<std::vector<LoadSample>> make_samples(const DatasetOptions& options,
                                             const Tokenizer& tokenizer);

// A text of `len` tokens, or nearly: some vocabularies have tokens that no text gives.
class TextMaker {
 public:
  TextMaker(const Tokenizer& tokenizer, uint64_t seed);

  // Tokens that are ordinary text; never empty for a vocabulary that can write any.
  const std::vector<TokenId>& ordinary_ids() const { return ordinary_ids_; }

  Result<std::string> text(int64_t len);
  Result<int64_t> count(const std::string& text) const;  // as a server counts a prompt
  Rng& rng() { return rng_; }

  // Uniform in [low, high].
  int64_t pick(int64_t low, int64_t high);

 private:
  const Tokenizer& tokenizer_;
  Rng rng_;
  std::vector<TokenId> ordinary_ids_;
};

}  // namespace octavo::cli
