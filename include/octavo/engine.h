// AsyncEngine: serves many requests at once from one model: continuous batching over a paged KV
// cache with a prefix cache. All calls are safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "octavo/model.h"
#include "octavo/request.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo {

enum class SchedulingPolicy { kFcfs, kPriority };

// Guessing tokens ahead of an answer, which the next step checks all at once: the tokens are those
// that come without, in fewer steps. A request whose guesses are wrong gets fewer of them.
struct SpeculativeConfig {
  // "ngram": what followed the same tokens earlier in prompt and answer. "draft_model": what a
  // smaller model with the same vocabulary says. "": as `model` is set or not.
  std::string method;
  std::string model;                   // of draft_model: its path
  int64_t num_speculative_tokens = 0;  // most guesses for a sequence in a step; must be set

  // Of ngram: how many of the last tokens must be found, and the most that are compared. 0: as the
  // other one; both 0: 5.
  int64_t prompt_lookup_min = 0;
  int64_t prompt_lookup_max = 0;
};

// What the engine may use. 0 leaves a choice to the engine; what it chose is logged at start.
struct EngineConfig : LoadOptions {
  int64_t block_size = 16;     // tokens of a KV block
  int64_t max_num_seqs = 128;  // sequences that run at once
  // Tokens of a step; at least max_num_seqs. 0: 512, on a GPU 2048, or more for more sequences.
  int64_t max_num_batched_tokens = 0;
  int64_t long_prefill_token_threshold = 0;  // most tokens of one prompt in a step; 0: no limit
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  bool enable_prefix_caching = true;
  double watermark = 0.01;        // [0, 1): share of KV blocks that admission leaves free
  double admission_factor = 1.2;  // >= 1: a request waits until its blocks times this are there

  // The size of the KV cache: exactly num_gpu_blocks_override blocks, or what fits into
  // kv_cache_memory_bytes, or else what all sequences can need, up to 40 % of the memory that is
  // available, on a GPU up to what weights and workspace leave of gpu_memory_utilization of what
  // was free; never more than max_paged_cache_size blocks.
  double gpu_memory_utilization = 0.9;
  int64_t max_paged_cache_size = 0;
  int64_t num_gpu_blocks_override = 0;
  int64_t kv_cache_memory_bytes = 0;

  std::optional<SpeculativeConfig> speculative_config;

  // Requests, and their prompt tokens, that wait; one more is refused.
  int64_t max_num_queued_reqs = 4096;
  int64_t max_num_queued_tokens = 16 << 20;
};

using RequestId = uint64_t;

enum class OutputKind {
  kDelta,       // what is new since the last event
  kCumulative,  // everything so far
  kFinalOnly,   // one event, with everything
};

struct EngineRequest : Request {
  // Asks for an embedding of the prompt in place of an answer: nothing is sampled, n must be 1 and
  // echo and prompt_logprobs unset.
  std::optional<PoolingParams> pooling;

  int32_t n = 1;      // answers. The i-th is what the request would give alone with seed + i
  bool echo = false;  // the text of an answer begins with the prompt's
  OutputKind output_kind = OutputKind::kDelta;
  int32_t priority = 0;             // the smaller, the sooner; counts under kPriority
  std::optional<double> timeout_s;  // from submit on; then the request ends with kDeadlineExceeded
  std::string cache_salt;           // only requests with the same salt share cached prefixes
};

struct RequestMetrics {
  double queued_s = 0;   // from submit to the first step
  double prefill_s = 0;  // from there to the first token
  double decode_s = 0;   // from there to the last token
  int64_t num_preemptions = 0;
};

// One of the n answers.
struct CompletionOutput {
  int32_t index = 0;
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;        // as many as token_ids, where asked for
  std::optional<FinishReason> finish_reason;  // set once the answer has ended
  std::string stop_reason;                    // see Generation
};

// An event. Of a request there are any number of events that are not finished and then exactly one
// that is, whatever happens.
struct RequestOutput {
  RequestId id = 0;
  bool finished = false;
  // Of the last event: not ok where the request failed, was cancelled or ran out of time; answers
  // that had not ended have FinishReason::kAbort then.
  Status status;
  std::vector<CompletionOutput> outputs;       // kDelta: those with something new; else all
  std::vector<TokenLogprobs> prompt_logprobs;  // see Generation; kDelta: in one event only
  std::vector<float> embedding;                // of a request with `pooling`, in its last event
  Usage usage;                                 // so far; completion tokens of all answers
  RequestMetrics metrics;                      // complete in the last event
};

// Called from the engine's own thread, which begins no step until it returns: it must not block.
// It may call submit() and cancel().
using RequestOutputSink = std::function<void(const RequestOutput&)>;

struct EngineStats {
  int64_t num_requests_running =
      0;  // requests with a sequence in the batch, or that have just ended
  int64_t num_requests_waiting = 0;
  int64_t num_tokens_waiting = 0;  // of the prompts of those
  // Requests since the start; submitted = running + waiting + the sum of the other four.
  int64_t num_submitted = 0;
  int64_t num_finished = 0;   // all answers reached a stop or a limit
  int64_t num_cancelled = 0;  // by cancel() or shutdown()
  int64_t num_timed_out = 0;
  int64_t num_failed = 0;
  int64_t num_refused = 0;  // by submit(); not counted as submitted

  int64_t num_blocks = 0;  // used + cached + free
  int64_t num_used_blocks = 0;
  int64_t num_cached_blocks = 0;
  int64_t num_free_blocks = 0;
  int64_t prefix_cache_queries = 0;  // tokens, without those of preempted sequences
  int64_t prefix_cache_hits = 0;
  int64_t num_preemptions = 0;
  int64_t prompt_tokens = 0;  // computed or found in the cache, of first admissions
  int64_t generation_tokens = 0;
  // Guesses: how often a sequence had some, how many, and those that came true: all, and by their
  // place (empty without speculation).
  int64_t spec_decode_num_drafts = 0;
  int64_t spec_decode_num_draft_tokens = 0;
  int64_t spec_decode_num_accepted_tokens = 0;
  std::vector<int64_t> spec_decode_num_accepted_tokens_per_pos;
  int64_t num_steps = 0;
  double step_s = 0;           // in steps: scheduling, computing, sampling, delivering
  double forward_s = 0;        // of that, computing; on a GPU delivering meanwhile
  double last_step_age_s = 0;  // since a step ended, or the engine had nothing to do
};

class AsyncEngine {
 public:
  // Loads a model and starts. Errors name the file, field or tensor.
  static Result<std::unique_ptr<AsyncEngine>> create(const std::string& path,
                                                     const EngineConfig& config);

  // shutdown().
  virtual ~AsyncEngine() = default;

  virtual const ModelInfo& info() const = 0;
  virtual const EngineConfig& config() const = 0;  // with all choices made
  virtual const Tokenizer* tokenizer() const = 0;  // nullptr where the model has none

  // Checks and queues a request. After an error there are no events; a full queue is
  // kResourceExhausted, an engine that takes no more requests kUnavailable.
  virtual Result<RequestId> submit(EngineRequest request, RequestOutputSink sink) = 0;

  // Ends a request before the next step, as its `cancel` does; nothing happens where it has ended.
  virtual void cancel(RequestId id) = 0;

  virtual EngineStats stats() const = 0;

  // kUnavailable once the engine has ended, with the error that ended it where it was no
  // shutdown().
  virtual Status health() const = 0;

  // No step begins until resume(). Requests are still taken, cancelled and timed out.
  virtual void pause() = 0;
  virtual void resume() = 0;

  // Takes no more requests from now on and waits until all have ended. kDeadlineExceeded where some
  // have not after `timeout_s`; they go on.
  virtual Status drain(double timeout_s) = 0;

  // Cancels what is left and stops. Also after a fatal error.
  virtual void shutdown() = 0;

  // Forgets all cached prefixes; an error while a request runs.
  virtual Status reset_prefix_cache() = 0;

  // Of the `index`-th answer of a request that runs.
  virtual Result<std::vector<PageTableRow>> page_table(RequestId id, int32_t index) = 0;
};

}  // namespace octavo
