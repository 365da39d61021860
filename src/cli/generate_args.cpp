#include "cli/generate_args.h"

#include <csignal>
#include <sstream>

#include "base/check.h"
#include "cli/model_args.h"

namespace octavo::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;
struct sigaction g_previous;

void on_interrupt(int) {
  g_interrupted = 1;
}

// Enough for an answer; keeps a small model that repeats itself from doing so for minutes.
constexpr int64_t kDefaultMaxTokens = 1024;

// "5:1.5,7:-100"
Result<std::vector<LogitBias>> parse_logit_bias(const std::string& text) {
  std::vector<LogitBias> biases;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream fields(part);
    LogitBias bias;
    char colon = 0;
    if (!(fields >> bias.token_id >> colon >> bias.bias) || colon != ':' || !fields.eof()) {
      return invalid_argument("--logit-bias: '" + part + "' is not ID:BIAS");
    }
    biases.push_back(bias);
  }
  return biases;
}

}  // namespace

SamplingArgs::SamplingArgs(Args& args) {
  params_.temperature = 0;
  max_tokens_ = kDefaultMaxTokens;
  args.option("--max-tokens", max_tokens_, "most tokens of the answer");
  args.option("--temperature", params_.temperature, "0: always the likeliest token");
  args.option("--top-k", params_.top_k, "draw from the k likeliest tokens; 0: from all");
  args.option("--top-p", params_.top_p,
              "draw from the likeliest tokens that reach this probability");
  args.option("--min-p", params_.min_p, "leave out tokens below this share of the likeliest one's");
  args.option("--seed", params_.seed, "the same seed gives the same answer");
  args.option("--repetition-penalty", params_.repetition_penalty,
              "divide the logits of tokens in prompt or answer by it; 1: off");
  args.option("--presence-penalty", params_.presence_penalty,
              "subtract it from the logits of tokens in the answer");
  args.option("--frequency-penalty", params_.frequency_penalty,
              "subtract it for each time a token is in the answer");
  args.option("--logit-bias", logit_bias_, "ID:BIAS, comma-separated: added to those logits");
  args.option("--bad-words", params_.bad_words, "a word never to generate; may be given again");
  args.option("--allowed-token-ids", allowed_token_ids_, "comma-separated ids: no others");
  args.option("--min-tokens", params_.min_tokens, "do not end the answer before");
  args.option("--logprobs", params_.logprobs,
              "needs --json: log-probabilities of the answer and of the N likeliest tokens");
  args.option("--prompt-logprobs", params_.prompt_logprobs, "the same for the prompt");
  args.option("--stop", params_.stop, "end the answer before this text; may be given again");
  args.option("--stop-token-ids", stop_token_ids_, "comma-separated ids that end the answer");
  args.flag("--ignore-eos", params_.ignore_eos, "go on after an end-of-text token");
}

Result<SamplingParams> SamplingArgs::params() const {
  SamplingParams params = params_;
  params.max_tokens = max_tokens_;
  if (!stop_token_ids_.empty()) {
    params.stop_token_ids = OCTAVO_TRY(parse_token_ids(stop_token_ids_, "--stop-token-ids"));
  }
  if (!allowed_token_ids_.empty()) {
    params.allowed_token_ids =
        OCTAVO_TRY(parse_token_ids(allowed_token_ids_, "--allowed-token-ids"));
  }
  params.logit_bias = OCTAVO_TRY(parse_logit_bias(logit_bias_));
  return params;
}

void Conversation::reset() {
  messages_.clear();
  if (!system_.empty()) add("system", system_);
}

void Conversation::set_system(const std::string& system) {
  system_ = system;
  reset();
}

void Conversation::add(const char* role, const std::string& content) {
  messages_.push_back({role, content});
}

Result<std::vector<TokenId>> Conversation::encode(const Tokenizer& tokenizer) const {
  const RenderedPrompt prompt = OCTAVO_TRY(tokenizer.render(to_messages_json(messages_), {}));
  return tokenizer.encode_prompt(prompt);
}

InterruptGuard::InterruptGuard() {
  g_interrupted = 0;
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // no SA_RESTART: a waiting read returns
  sigaction(SIGINT, &action, &g_previous);
}
InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &g_previous, nullptr);
}
bool InterruptGuard::interrupted() {
  return g_interrupted != 0;
}
void InterruptGuard::clear() {
  g_interrupted = 0;
}

}  // namespace octavo::cli
