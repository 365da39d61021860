// Sampling flags, rendering of a conversation, and Ctrl-C: shared by `run` and its chat.
#pragma once

#include <string>
#include <vector>

#include "cli/args.h"
#include "octavo/model.h"

namespace octavo::cli {

// Declares --max-tokens, --temperature and the other flags of sampling. The defaults are greedy:
// the same answer every time.
class SamplingArgs {
 public:
  explicit SamplingArgs(Args& args);
  Result<SamplingParams> params() const;

 private:
  SamplingParams params_;
  std::string stop_token_ids_;
  std::string allowed_token_ids_;
  std::string logit_bias_;
  std::optional<int64_t> max_tokens_;
};

// A conversation as the template takes it.
class Conversation {
 public:
  // An empty `system` leaves the system message to the template.
  explicit Conversation(const std::string& system) : system_(system) { reset(); }

  void reset();
  void set_system(const std::string& system);
  void add(const char* role, const std::string& content);
  void drop_last() { messages_.pop_back(); }

  // The ids of the whole conversation, ready for the assistant's turn.
  Result<std::vector<TokenId>> encode(const Tokenizer& tokenizer) const;

 private:
  std::string system_;
  std::vector<Message> messages_;
};

// While one lives, Ctrl-C sets a flag instead of ending the process, and interrupts a read.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
  static void clear();
};

// `run MODEL` without a prompt.
int run_chat(Model& model, const SamplingParams& sampling, const std::string& system);

}  // namespace octavo::cli
