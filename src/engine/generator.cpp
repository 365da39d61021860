#include "engine/generator.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "engine/logprobs.h"
#include "engine/output.h"

namespace octavo::engine {
namespace {

std::span<const float> row_of(const ops::Mat& logits, int64_t row) {
  return {logits.row<float>(row), static_cast<size_t>(logits.cols)};
}

// Whether the caller still wants the answer; hands it the next text.
bool hand_over(const Request& request, const OutputSink& sink, std::string_view text) {
  return (!sink || sink(text)) && !request.cancel.stop_requested();
}

// Takes rows of logits as they come.
auto collect_into(Logits& result) {
  return [&result](int64_t, const ops::Mat& rows) -> Status {
    const auto* values = static_cast<const float*>(rows.data);
    result.values.insert(result.values.end(), values, values + rows.rows * rows.cols);
    result.num_positions += rows.rows;
    return {};
  };
}

// What a benchmark feeds in: any ids do, as long as they differ and the model knows them.
std::vector<TokenId> arbitrary_prompt(int64_t length, int64_t index, int64_t vocab_size) {
  std::vector<TokenId> ids(length);
  for (int64_t i = 0; i < length; ++i) {
    ids[i] = static_cast<TokenId>((1009 * (index + 1) + 7919 * i) % vocab_size);
  }
  return ids;
}

}  // namespace

Status Generator::check_prompt(std::span<const TokenId> token_ids) const {
  const int64_t vocab_size = runner_.model().config().vocab_size;
  if (token_ids.empty()) return invalid_argument("the prompt is empty: it has no token");
  for (size_t i = 0; i < token_ids.size(); ++i) {
    if (token_ids[i] < 0 || token_ids[i] >= vocab_size) {
      return invalid_argument(format("token id {} (position {}) lies outside the vocabulary of {}",
                                     token_ids[i], i, vocab_size));
    }
  }
  const auto length = static_cast<int64_t>(token_ids.size());
  if (length > runner_.max_model_len()) {
    return invalid_argument(
        format("the prompt has {} tokens, the context only {}", length, runner_.max_model_len()));
  }
  return {};
}

int64_t Generator::start_sequence(std::span<const TokenId> prompt) {
  const int64_t most =
      std::min<int64_t>(sequence_.num_computed_tokens, static_cast<int64_t>(prompt.size()) - 1);
  int64_t common = 0;
  while (common < most && sequence_.token_ids[common] == prompt[common]) ++common;
  sequence_.token_ids.assign(prompt.begin(), prompt.end());
  sequence_.num_computed_tokens = common;
  runner_.blocks().shrink(sequence_.block_table, common);
  return common;
}

void Generator::drop_sequence() {
  runner_.blocks().shrink(sequence_.block_table, 0);
  sequence_ = {};
}

Result<ops::Mat> Generator::compute_pending(LogitsPositions positions, const ChunkFn& on_chunk) {
  if (!runner_.blocks().grow(sequence_.block_table, sequence_.num_tokens())) {
    return resource_exhausted(
        format("the KV cache has no room for {} tokens", sequence_.num_tokens()));
  }
  const bool all = positions == LogitsPositions::kAll;
  while (true) {
    const int64_t begin = sequence_.num_computed_tokens;
    const int64_t pending = sequence_.num_pending_tokens();
    const int64_t chunk = std::min(pending, all ? kMaxLogitRows : kMaxNumBatchedTokens);
    const bool last = chunk == pending;
    const WantLogits want = all ? WantLogits::kAll : last ? WantLogits::kLast : WantLogits::kNone;
    const ScheduledSlice slice{&sequence_, chunk, want};
    ops::Mat logits = OCTAVO_TRY(runner_.forward({&slice, 1}));
    OCTAVO_TRY(on_chunk(begin, logits));
    if (last) return logits;
  }
}

Result<TokenId> Generator::choose_token(const Request& request, const OutputSink& sink,
                                        LogitsProcessor& processor, Sampler& sampler,
                                        Generation& result) {
  const bool prompt = result.token_ids.empty() && request.sampling.prompt_logprobs.has_value();
  const auto on_chunk = [&](int64_t begin, const ops::Mat& rows) -> Status {
    for (int64_t i = 0; prompt && i < rows.rows && begin + i + 1 < sequence_.num_tokens(); ++i) {
      result.prompt_logprobs.push_back(token_logprobs(
          row_of(rows, i), sequence_.token_ids[begin + i + 1], *request.sampling.prompt_logprobs));
    }
    const bool more = sequence_.num_pending_tokens() > 0;
    return more && !hand_over(request, sink, "") ? cancelled("the caller refused more") : Status();
  };
  if (request.cancel.stop_requested()) return cancelled("the request was cancelled");
  const ops::Mat logits = OCTAVO_TRY(
      compute_pending(prompt ? LogitsPositions::kAll : LogitsPositions::kLast, on_chunk));
  const std::span<const float> row = row_of(logits, logits.rows - 1);
  TokenId id = 0;
  if (processor.active()) {
    OCTAVO_TRY(argmax(row));  // a NaN must not hide behind a ban
    processed_.assign(row.begin(), row.end());
    processor.apply(processed_, result.token_ids);
    id = OCTAVO_TRY(sampler.sample(processed_));
  } else {
    id = OCTAVO_TRY(sampler.sample(row));
  }
  if (request.sampling.logprobs) {
    result.logprobs.push_back(token_logprobs(row, id, *request.sampling.logprobs));
  }
  processor.push(id);
  sequence_.token_ids.push_back(id);
  result.token_ids.push_back(id);
  return id;
}

Result<Generation> Generator::generate(const Request& request, const OutputSink& sink) {
  OCTAVO_TRY(validate_sampling(request.sampling));
  OCTAVO_TRY(check_prompt(request.prompt_token_ids));
  const auto prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t room = runner_.max_model_len() - prompt_tokens;
  if (room < 1) {
    return invalid_argument(format("the prompt has {} tokens and the context {}: no room to answer",
                                   prompt_tokens, runner_.max_model_len()));
  }
  auto processor =
      OCTAVO_TRY(LogitsProcessor::create(request, tokenizer_, runner_.model().config().vocab_size));
  // Logprobs of the prompt need all of it computed anew.
  if (request.sampling.prompt_logprobs) drop_sequence();
  Generation result;
  result.usage.prompt_tokens = prompt_tokens;
  result.usage.cached_tokens = start_sequence(request.prompt_token_ids);
  result.finish_reason = FinishReason::kLength;
  const int64_t max_tokens = std::min(request.sampling.max_tokens.value_or(room), room);
  Sampler sampler(request.sampling);
  OutputStream output(tokenizer_, request);
  const double start = now_seconds();
  double first_token = start;
  const auto emit = [&](const std::string& text) {
    result.text += text;
    return hand_over(request, sink, text);
  };
  for (int64_t step = 0; step < max_tokens; ++step) {
    const auto chosen = choose_token(request, sink, processor, sampler, result);
    if (step == 0) first_token = now_seconds();
    if (!chosen.ok() && chosen.status().code() == StatusCode::kCancelled) {
      result.finish_reason = FinishReason::kAbort;
      break;
    }
    const TokenId id = OCTAVO_TRY(chosen);
    if (is_stop_token(tokenizer_, request, id)) {
      result.finish_reason = FinishReason::kStop;
      result.stop_reason = format("token {}", id);
      break;
    }
    const bool wanted = emit(output.push(id));
    if (output.stop_hit() != nullptr) {
      result.finish_reason = FinishReason::kStop;
      result.stop_reason = *output.stop_hit();
      break;
    }
    if (!wanted) {
      result.finish_reason = FinishReason::kAbort;
      break;
    }
  }
  if (result.finish_reason == FinishReason::kAbort) {
    result.text += output.finish();  // the sink has refused more
  } else if (output.stop_hit() == nullptr) {
    emit(output.finish());
  }
  result.usage.completion_tokens = static_cast<int64_t>(result.token_ids.size());
  result.timings.prefill_s = first_token - start;
  result.timings.decode_s = now_seconds() - first_token;
  return result;
}

Result<Logits> Generator::logits(std::span<const TokenId> token_ids, LogitsPositions positions) {
  OCTAVO_TRY(check_prompt(token_ids));
  drop_sequence();
  sequence_.token_ids.assign(token_ids.begin(), token_ids.end());
  Logits result;
  result.vocab_size = runner_.model().config().vocab_size;
  OCTAVO_TRY(compute_pending(positions, collect_into(result)));
  return result;
}

Result<Logits> Generator::logits_from(std::span<const TokenId> token_ids, int64_t first_position) {
  OCTAVO_TRY(check_prompt(token_ids));
  if (first_position < 0 || first_position >= static_cast<int64_t>(token_ids.size())) {
    return invalid_argument(
        format("first_position is {}, but there are {} tokens", first_position, token_ids.size()));
  }
  const std::span<const TokenId> before = token_ids.first(static_cast<size_t>(first_position));
  if (start_sequence(token_ids) < first_position) {
    sequence_.token_ids.assign(before.begin(), before.end());
    OCTAVO_TRY(compute_pending(LogitsPositions::kLast, [](auto, const auto&) { return Status(); }));
    sequence_.token_ids.assign(token_ids.begin(), token_ids.end());
  } else {
    sequence_.num_computed_tokens = first_position;
    runner_.blocks().shrink(sequence_.block_table, first_position);
  }
  Logits result;
  result.vocab_size = runner_.model().config().vocab_size;
  OCTAVO_TRY(compute_pending(LogitsPositions::kAll, collect_into(result)));
  return result;
}

Result<Model::LatencyRun> Generator::time_sequences(std::vector<Sequence>& sequences,
                                                    int64_t output_len) {
  const double start = now_seconds();
  std::vector<ScheduledSlice> slices;
  // Prompts share a step as long as they fit, as a server's would.
  const auto append_next = [&](const ops::Mat& logits) -> Status {
    int64_t row = 0;
    for (const ScheduledSlice& slice : slices) {
      if (slice.logits == WantLogits::kNone) continue;
      slice.sequence->token_ids.push_back(OCTAVO_TRY(argmax(row_of(logits, row++))));
    }
    return {};
  };
  for (size_t next = 0; next < sequences.size();) {
    slices.clear();
    int64_t budget = kMaxNumBatchedTokens;
    while (next < sequences.size() && budget > 0) {
      const int64_t pending = sequences[next].num_pending_tokens();
      const int64_t chunk = std::min(pending, budget);
      budget -= chunk;
      const bool last = chunk == pending;
      slices.push_back({&sequences[next], chunk, last ? WantLogits::kLast : WantLogits::kNone});
      if (last) ++next;
    }
    OCTAVO_TRY(append_next(OCTAVO_TRY(runner_.forward(slices))));
  }
  Model::LatencyRun run;
  run.prefill_s = now_seconds() - start;
  for (int64_t step = 1; step < output_len; ++step) {
    slices.clear();
    for (Sequence& sequence : sequences) slices.push_back({&sequence, 1, WantLogits::kLast});
    OCTAVO_TRY(append_next(OCTAVO_TRY(runner_.forward(slices))));
  }
  run.decode_s = now_seconds() - start - run.prefill_s;
  return run;
}

Result<Model::LatencyRun> Generator::measure_latency(int64_t batch_size, int64_t input_len,
                                                     int64_t output_len) {
  if (batch_size < 1 || batch_size > kMaxLogitRows) {
    return invalid_argument(
        format("batch_size is {}, which must lie in 1..{}", batch_size, kMaxLogitRows));
  }
  if (input_len < 1 || output_len < 1 || input_len > runner_.max_model_len() ||
      output_len > runner_.max_model_len() - input_len) {
    return invalid_argument(
        format("input_len {} and output_len {} must be positive and fit into "
               "the context of {} tokens",
               input_len, output_len, runner_.max_model_len()));
  }
  drop_sequence();
  const int64_t blocks_each = runner_.blocks().blocks_for(input_len + output_len);
  OCTAVO_TRY(runner_.resize_kv_cache(batch_size * blocks_each));
  std::vector<Sequence> sequences(batch_size);
  for (int64_t i = 0; i < batch_size; ++i) {
    sequences[i].token_ids = arbitrary_prompt(input_len, i, runner_.model().config().vocab_size);
    const bool fits = runner_.blocks().grow(sequences[i].block_table, input_len + output_len);
    OCTAVO_CHECK(fits);
  }
  auto run = time_sequences(sequences, output_len);
  for (Sequence& sequence : sequences) runner_.blocks().shrink(sequence.block_table, 0);
  return run;
}

}  // namespace octavo::engine
