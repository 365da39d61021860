// Generator: one sequence at a time on a ModelRunner. Keeps the last sequence, so that a chat's
// next turn computes only what is new.
#pragma once

#include <functional>
#include <memory>

#include "engine/block_manager.h"
#include "engine/logits_processor.h"
#include "engine/model_runner.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "grammar/grammar_cache.h"
#include "octavo/model.h"

namespace octavo::engine {

class Generator {
 public:
  // `tokenizer` may be null: answers then have no text, only ids.
  static Result<std::unique_ptr<Generator>> create(ModelRunner& runner, const Tokenizer* tokenizer);

  Result<Generation> generate(const Request& request, const OutputSink& sink);
  Result<Logits> logits(std::span<const TokenId> token_ids, LogitsPositions positions);
  Result<Logits> logits_from(std::span<const TokenId> token_ids, int64_t first_position);
  Result<Model::LatencyRun> measure_latency(int64_t batch_size, int64_t input_len,
                                            int64_t output_len);
  std::vector<PageTableRow> page_table() const;

 private:
  Generator(ModelRunner& runner, const Tokenizer* tokenizer)
      : runner_(runner), tokenizer_(tokenizer), grammars_(tokenizer) {}

  // Makes room for so many sequences of `num_tokens` tokens; none may exist.
  Status reserve_tokens(int64_t num_seqs, int64_t num_tokens);
  Status check(std::span<const TokenId> token_ids) const;

  // Makes sequence_ hold `prompt`, to grow to `max_tokens` tokens, keeping the computed prefix that
  // they share (all but the last token at most: its logits are needed). Returns how many tokens
  // were kept.
  int64_t start_sequence(std::span<const TokenId> prompt, int64_t max_tokens);

  // Called after each chunk with the position of its first token and its rows of logits; an error
  // ends the computation.
  using ChunkFn = std::function<Status(int64_t begin, const ops::Mat& logits)>;

  // Computes all pending tokens of sequence_ in chunks, with the logits of all of them or of the
  // last one, from which `draw` may draw a token. Returns the last chunk's.
  Result<StepOutput> compute_pending(LogitsPositions positions, const ChunkFn& on_chunk,
                                     const ops::RowDraw& draw = {});

  // The token after sequence_, by the request's rules; adds its logprobs, and the prompt's where
  // they are asked for. Cancelled, or refused by `sink` between chunks, it is kCancelled.
  Result<TokenId> choose_token(const Request& request, const OutputSink& sink,
                               LogitsProcessor& processor, Sampler& sampler, Generation& result);

  // Prefills all sequences, then decodes them together.
  Result<Model::LatencyRun> time_sequences(std::vector<Sequence>& sequences, int64_t output_len);

  void drop_sequence();

  ModelRunner& runner_;
  std::unique_ptr<BlockManager> blocks_;
  const Tokenizer* tokenizer_;
  grammar::GrammarCache grammars_;
  Sequence sequence_;
  SamplerScratch scratch_;
};

}  // namespace octavo::engine
