#include "engine/generator.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "engine/logprobs.h"
#include "engine/output.h"
#include "engine/request_check.h"

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

Result<std::unique_ptr<Generator>> Generator::create(ModelRunner& runner,
                                                     const Tokenizer* tokenizer) {
  std::unique_ptr<Generator> generator(new Generator(runner, tokenizer));
  OCTAVO_TRY(generator->reserve_tokens(1, runner.max_model_len()));
  return generator;
}

Status Generator::reserve_tokens(int64_t num_seqs, int64_t num_tokens) {
  const int64_t block_size = runner_.limits().block_size;
  const int64_t pages = (num_tokens + block_size - 1) / block_size;
  OCTAVO_TRY(runner_.resize_kv_cache(num_seqs * pages * runner_.kv_groups().num_groups()));
  blocks_ = std::make_unique<BlockManager>(runner_.num_kv_blocks(), block_size, false,
                                           runner_.kv_groups().spans);
  return {};
}

Status Generator::check(std::span<const TokenId> token_ids) const {
  return check_prompt(token_ids, runner_.model().config().vocab_size, runner_.max_model_len());
}

int64_t Generator::start_sequence(std::span<const TokenId> prompt, int64_t max_tokens) {
  const int64_t rope_variant = runner_.rope_variant(max_tokens);
  if (rope_variant != sequence_.rope_variant) drop_sequence();
  sequence_.rope_variant = rope_variant;
  const int64_t most =
      std::min<int64_t>(sequence_.num_computed_tokens, static_cast<int64_t>(prompt.size()) - 1);
  int64_t common = 0;
  while (common < most && sequence_.token_ids[common] == prompt[common]) ++common;
  sequence_.token_ids.assign(prompt.begin(), prompt.end());
  sequence_.num_computed_tokens = common;
  blocks_->shrink(sequence_.block_table, common);
  return common;
}

std::vector<PageTableRow> Generator::page_table() const {
  if (blocks_ == nullptr) return {};
  return blocks_->page_table(sequence_.block_table);
}

void Generator::drop_sequence() {
  blocks_->shrink(sequence_.block_table, 0);
  sequence_ = {};
}

Result<StepOutput> Generator::compute_pending(LogitsPositions positions, const ChunkFn& on_chunk,
                                              const ops::RowDraw& draw) {
  if (!blocks_->grow(sequence_.block_table, sequence_.num_tokens())) {
    return resource_exhausted(
        format("the KV cache has no room for {} tokens", sequence_.num_tokens()));
  }
  const bool all = positions == LogitsPositions::kAll;
  const RunnerLimits& limits = runner_.limits();
  while (true) {
    const int64_t begin = sequence_.num_computed_tokens;
    const int64_t pending = sequence_.num_pending_tokens();
    const int64_t chunk =
        std::min(pending, all ? limits.max_logit_rows : limits.max_num_batched_tokens);
    const bool last = chunk == pending;
    const ScheduledSlice slice{&sequence_, chunk, all ? chunk : last ? 1 : 0};
    const std::span<const ops::RowDraw> draws(&draw, last && !all ? 1 : 0);
    const StepOutput output = OCTAVO_TRY(runner_.forward({&slice, 1}, draws));
    OCTAVO_TRY(on_chunk(begin, output.logits));
    if (last) return output;
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
  const StepOutput output =
      OCTAVO_TRY(compute_pending(prompt ? LogitsPositions::kAll : LogitsPositions::kLast, on_chunk,
                                 draw_by_rules(request.sampling, processor, sampler)));
  const std::span<const float> row = row_of(output.logits, output.logits.rows - 1);
  TokenId id = output.token(output.logits.rows - 1);
  if (id >= 0) {
    sampler.move_on();
  } else {
    id = OCTAVO_TRY(choose_by_rules(row, result.token_ids, processor, sampler, scratch_));
  }
  if (request.sampling.logprobs) {
    result.logprobs.push_back(
        OCTAVO_TRY(logprobs_by_rules(row, id, *request.sampling.logprobs, processor, scratch_)));
  }
  processor.push(id);
  sequence_.token_ids.push_back(id);
  result.token_ids.push_back(id);
  return id;
}

Result<Generation> Generator::generate(const Request& request, const OutputSink& sink) {
  OCTAVO_TRY(validate_sampling(request.sampling));
  OCTAVO_TRY(check(request.prompt_token_ids));
  const auto prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t room = OCTAVO_TRY(room_for_answer(prompt_tokens, runner_.max_model_len()));
  auto processor =
      OCTAVO_TRY(LogitsProcessor::create(request, tokenizer_, runner_.model().config().vocab_size));
  if (const auto& outputs = request.sampling.structured_outputs) {
    processor.constrain(OCTAVO_TRY(grammars_.matcher(*outputs)));
  }
  // Logprobs of the prompt need all of it computed anew.
  if (request.sampling.prompt_logprobs) drop_sequence();
  Generation result;
  result.usage.prompt_tokens = prompt_tokens;
  result.finish_reason = FinishReason::kLength;
  const int64_t max_tokens = std::min(request.sampling.max_tokens.value_or(room), room);
  result.usage.cached_tokens = start_sequence(request.prompt_token_ids, prompt_tokens + max_tokens);
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
  OCTAVO_TRY(check(token_ids));
  drop_sequence();
  sequence_.token_ids.assign(token_ids.begin(), token_ids.end());
  sequence_.rope_variant = runner_.rope_variant(sequence_.num_tokens());
  Logits result;
  result.vocab_size = runner_.model().config().vocab_size;
  OCTAVO_TRY(compute_pending(positions, collect_into(result)));
  return result;
}

Result<Logits> Generator::logits_from(std::span<const TokenId> token_ids, int64_t first_position) {
  OCTAVO_TRY(check(token_ids));
  if (first_position < 0 || first_position >= static_cast<int64_t>(token_ids.size())) {
    return invalid_argument(
        format("first_position is {}, but there are {} tokens", first_position, token_ids.size()));
  }
  const std::span<const TokenId> before = token_ids.first(static_cast<size_t>(first_position));
  const auto num_tokens = static_cast<int64_t>(token_ids.size());
  if (start_sequence(token_ids, num_tokens) < first_position) {
    sequence_.token_ids.assign(before.begin(), before.end());
    OCTAVO_TRY(compute_pending(LogitsPositions::kLast, [](auto, const auto&) { return Status(); }));
    sequence_.token_ids.assign(token_ids.begin(), token_ids.end());
  } else {
    sequence_.num_computed_tokens = first_position;
    blocks_->shrink(sequence_.block_table, first_position);
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
  const auto run_step = [&]() -> Status {
    const auto num_rows = std::count_if(slices.begin(), slices.end(),
                                        [](const auto& slice) { return slice.num_logit_rows > 0; });
    const std::vector<ops::RowDraw> draws(num_rows, {.kind = ops::DrawKind::kGreedy});
    const StepOutput output = OCTAVO_TRY(runner_.forward(slices, draws));
    int64_t row = 0;
    for (const ScheduledSlice& slice : slices) {
      if (slice.num_logit_rows == 0) continue;
      TokenId id = output.token(row);
      if (id < 0) id = OCTAVO_TRY(argmax(row_of(output.logits, row)));
      slice.sequence->token_ids.push_back(id);
      ++row;
    }
    return {};
  };
  // Prompts share a step as long as they fit, as a server's would.
  for (size_t next = 0; next < sequences.size();) {
    slices.clear();
    int64_t budget = runner_.limits().max_num_batched_tokens;
    while (next < sequences.size() && budget > 0) {
      const int64_t pending = sequences[next].num_pending_tokens();
      const int64_t chunk = std::min(pending, budget);
      budget -= chunk;
      const bool last = chunk == pending;
      slices.push_back({&sequences[next], chunk, last ? 1 : 0});
      if (last) ++next;
    }
    OCTAVO_TRY(run_step());
  }
  Model::LatencyRun run;
  run.prefill_s = now_seconds() - start;
  for (int64_t step = 1; step < output_len; ++step) {
    slices.clear();
    for (Sequence& sequence : sequences) slices.push_back({&sequence, 1, 1});
    OCTAVO_TRY(run_step());
  }
  run.decode_s = now_seconds() - start - run.prefill_s;
  return run;
}

Result<Model::LatencyRun> Generator::measure_latency(int64_t batch_size, int64_t input_len,
                                                     int64_t output_len) {
  const int64_t max_batch_size = runner_.limits().max_logit_rows;
  if (batch_size < 1 || batch_size > max_batch_size) {
    return invalid_argument(
        format("batch_size is {}, which must lie in 1..{}", batch_size, max_batch_size));
  }
  if (input_len < 1 || output_len < 1 || input_len > runner_.max_model_len() ||
      output_len > runner_.max_model_len() - input_len) {
    return invalid_argument(
        format("input_len {} and output_len {} must be positive and fit into "
               "the context of {} tokens",
               input_len, output_len, runner_.max_model_len()));
  }
  drop_sequence();
  OCTAVO_TRY(reserve_tokens(batch_size, input_len + output_len));
  std::vector<Sequence> sequences(batch_size);
  for (int64_t i = 0; i < batch_size; ++i) {
    sequences[i].rope_variant = runner_.rope_variant(input_len + output_len);
    sequences[i].token_ids = arbitrary_prompt(input_len, i, runner_.model().config().vocab_size);
    const bool fits = blocks_->grow(sequences[i].block_table, input_len + output_len);
    OCTAVO_CHECK(fits);
  }
  auto run = time_sequences(sequences, output_len);
  for (Sequence& sequence : sequences) blocks_->shrink(sequence.block_table, 0);
  return run;
}

}  // namespace octavo::engine
