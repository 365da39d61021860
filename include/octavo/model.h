// Model: a loaded model on a device, ready to compute. One thread at a time may be in logits(),
// logits_from(), generate() or measure_latency(); the rest may be called from any thread, also
// meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/request.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo {

struct LoadOptions {
  std::string backend = "auto";  // auto, cpu, cuda, ref; auto: a GPU that can be used
  std::string dtype = "auto";    // auto, bfloat16, float32: arithmetic of matrix products
  // auto, float32, bfloat16, float16, int8; on a GPU auto, bfloat16, fp8.
  std::string kv_cache_dtype = "auto";
  // auto, flash_attention_3, flash_attention_2, paged, sdpa, eager; auto: the best that can run.
  std::string attn_implementation = "auto";
  // Copy weights into the layout that is computed fastest, where memory suffices; else they are
  // read from the mapped file as they lie there. The answers are the same.
  bool repack = true;
  int threads = 0;            // 0: what affinity and cgroup allow
  int64_t max_model_len = 0;  // tokens of context; 0: what the model says
  // Called while loading with bytes done and in all, from the loading thread.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
};

struct ModelInfo {
  std::string path;
  std::string architecture;  // e.g. "LlamaForCausalLM"
  std::string backend;       // which one runs
  std::string kernels;       // the kernel set and why, e.g. "avx512_vnni"
  std::string dtype;         // arithmetic in use: "int8", "bfloat16", "float32"
  std::string kv_cache_dtype;
  std::string attention;  // the implementation and why, e.g. "flash_attention_3 (sm_90a)"
  int threads = 0;
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;  // of all weights as stored, on a GPU as they lie there
  int64_t decode_bytes = 0;  // of weights read to decode one token
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;  // values of an embedding
  int64_t max_model_len = 0;
};

enum class LogitsPositions { kLast, kAll };

// [num_positions, vocab_size], row-major.
struct Logits {
  int64_t num_positions = 0;
  int64_t vocab_size = 0;
  std::vector<float> values;
};

// A line of a sequence's page table.
struct PageTableRow {
  int64_t page = 0;    // logical
  int32_t group = 0;   // of layers; each has a block of its own for a page
  int32_t block = -1;  // physical; -1: given back, or not needed yet
  int32_t reference_count = 0;
};

class Model {
 public:
  // Loads a model file or folder. Errors name the file, key or tensor.
  static Result<std::unique_ptr<Model>> load(const std::string& path, const LoadOptions& options);

  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // nullptr where the file has no vocabulary; `tokenizer_status` says why.
  virtual const Tokenizer* tokenizer() const = 0;
  virtual const Status& tokenizer_status() const = 0;

  // Logits after every prompt token or the last one. An id outside the vocabulary or a prompt
  // longer than max_model_len is an error.
  virtual Result<Logits> logits(std::span<const TokenId> token_ids, LogitsPositions positions) = 0;

  // Logits after each token from position `first_position` on. Tokens before it that the last call
  // left in the KV cache are not computed again: calls with more and more of a long text walk
  // through it in pieces, in memory that the length of a piece bounds. A model whose rotation
  // depends on the length of a sequence takes that of `token_ids`.
  virtual Result<Logits> logits_from(std::span<const TokenId> token_ids,
                                     int64_t first_position) = 0;

  // Generates until a stop, a limit, the sink's refusal or a cancel. A prefix that the last call
  // left in the KV cache is reused. `sink` may be null; it is called by the calling thread, and
  // must not call this model.
  virtual Result<Generation> generate(const Request& request, const OutputSink& sink) = 0;

  // Of the sequence that the last call left in the KV cache. Not while one of them runs.
  virtual std::vector<PageTableRow> page_table() const = 0;

  // Times `batch_size` sequences at once, each of `input_len` arbitrary tokens, decoding
  // `output_len` further ones greedily. Nothing is reused from earlier calls.
  struct LatencyRun {
    double prefill_s = 0;  // all prompts, up to and including the first tokens
    double decode_s = 0;   // the remaining output_len - 1 steps
  };
  virtual Result<LatencyRun> measure_latency(int64_t batch_size, int64_t input_len,
                                             int64_t output_len) = 0;
};

// What a model takes of memory on the backend that the options choose.
struct MemoryNeeds {
  int64_t weight_bytes = 0;        // as packed; on the CPU mostly views of the mapped file
  int64_t kv_bytes_per_token = 0;  // of context, for each sequence
  int64_t workspace_bytes = 0;     // activations, scratch memory and logits of one step
  int64_t max_model_len = 0;
};

// Checks all that Model::load checks of the metadata and of the tensors' names, shapes and types,
// without reading weights: a moment, however large the file. The error is what Model::load says.
Result<MemoryNeeds> measure_memory(const std::string& path, const LoadOptions& options);

// Whether Model::load knows an architecture, by the name that a model file gives it: "llama" in a
// GGUF file, "LlamaForCausalLM" in Hugging Face's config.json.
bool supports_architecture(std::string_view name);

// The tokenizer of a model alone: a file that has a vocabulary but no weights is enough, and so is
// a folder without weights, or its tokenizer.json or tokenizer.model alone.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path);

}  // namespace octavo
