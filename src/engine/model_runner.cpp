#include "engine/model_runner.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory_limits.h"
#include "model/decoder.h"

namespace octavo::engine {
namespace {

// Rows of one forward where nobody has set them. On a CPU 512 keep the activations of a 135M model
// in a 32 MB cache, and are enough for matrix products to run at full speed; GPUs need more.
constexpr int64_t kHostRows = 512;
constexpr int64_t kGpuRows = 2048;

Result<backends::Arithmetic> parse_arithmetic(const std::string& dtype) {
  if (dtype == "auto") return backends::Arithmetic::kAuto;
  if (dtype == "float32") return backends::Arithmetic::kFloat32;
  if (dtype == "bfloat16") return backends::Arithmetic::kBFloat16;
  return invalid_argument(format("dtype '{}' is not known: use auto, bfloat16 or float32", dtype));
}

Result<DType> parse_kv_dtype(const std::string& name, const backends::Backend& backend) {
  if (name == "auto") {
    return backend.arithmetic == backends::Arithmetic::kFloat32 ? DType::kF32 : DType::kBF16;
  }
  const bool gpu = backend.compute_capability != 0;
  const char* const choice =
      gpu ? "auto, bfloat16 or fp8" : "auto, float32, bfloat16, float16 or int8";
  const bool fp8 = name == "fp8" || name == "fp8_e4m3";
  const bool of_cpu = name == "float32" || name == "float16" || name == "int8";
  if (name == "bfloat16") return DType::kBF16;
  if (gpu && fp8) return DType::kF8E4M3;
  if (!gpu && of_cpu) return *parse_dtype(name);
  if (fp8 || of_cpu) {
    return unsupported(format("kv_cache_dtype {}: the backend '{}' has no kernels for it; use {}",
                              name, backend.name, choice));
  }
  return invalid_argument(format("kv_cache_dtype '{}' is not known: use {}", name, choice));
}

// Whether a copy of the weights fits into the memory that is left, with a tenth to spare.
bool copy_fits(int64_t bytes, const std::string& path) {
  const int64_t available = available_memory_bytes();
  if (available == 0 || bytes <= available / 10 * 9) return true;
  log_line(LogLevel::kWarning,
           format("{}: weights are read from the mapped file, which is slower: a copy of {} MB "
                  "does not fit into the {} MB of memory that are available",
                  path, bytes / 1000000, available / 1000000));
  return false;
}

}  // namespace

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(const formats::Checkpoint& checkpoint,
                                                         const LoadOptions& options,
                                                         const RunnerLimits& limits) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner(limits));
  OCTAVO_TRY(runner->load(checkpoint, options, model::LoadMode::kCompute));
  return runner;
}

Result<MemoryNeeds> ModelRunner::measure(const formats::Checkpoint& checkpoint,
                                         const LoadOptions& options) {
  ModelRunner runner({});
  OCTAVO_TRY(runner.load(checkpoint, options, model::LoadMode::kMeasure));
  const model::CausalLM& lm = *runner.model_;
  return MemoryNeeds{.weight_bytes = lm.totals().weight_bytes,
                     .kv_bytes_per_token = runner.kv_bytes_per_token(),
                     .workspace_bytes = runner.workspace_bytes(),
                     .max_model_len = runner.max_model_len_};
}

Status ModelRunner::load(const formats::Checkpoint& checkpoint, const LoadOptions& options,
                         model::LoadMode mode) {
  const auto arithmetic = OCTAVO_TRY(parse_arithmetic(options.dtype));
  auto packing = backends::Packing::kNone;
  if (mode == model::LoadMode::kCompute) packing = backends::Packing::kFast;
  backend_ = OCTAVO_TRY(backends::open_backend(options.backend, arithmetic, packing));
  if (backend_.device->host_accessible() && mode == model::LoadMode::kCompute &&
      !(options.repack && copy_fits(checkpoint.file_bytes(), checkpoint.path()))) {
    backend_ =
        OCTAVO_TRY(backends::open_backend(backend_.name, arithmetic, backends::Packing::kAsStored));
  }
  if (options.threads < 0 || options.threads > 1024) {
    return invalid_argument(format("threads is {}, which must lie in 0..1024", options.threads));
  }
  pool_ =
      OCTAVO_TRY(ThreadPool::create(options.threads == 0 ? available_threads() : options.threads));
  return backend_.device->run([&] { return load_model(checkpoint, options, mode); });
}

Status ModelRunner::load_model(const formats::Checkpoint& checkpoint, const LoadOptions& options,
                               model::LoadMode mode) {
  if (limits_.max_num_batched_tokens == 0) {
    limits_.max_num_batched_tokens =
        std::max(limits_.max_logit_rows, backend_.device->host_accessible() ? kHostRows : kGpuRows);
  }
  const model::ModelConfig config = OCTAVO_TRY(model::read_model_config(checkpoint));
  backends::AttentionFacts facts = backends::attention_facts(backend_);
  facts.head_dim = static_cast<int>(config.head_dim);
  facts.block_size = static_cast<int>(limits_.block_size);
  attention_ = OCTAVO_TRY(backends::choose_attention(options.attn_implementation, facts));
  backends::use_attention(backend_, attention_);
  model::WeightLoader loader(checkpoint, config, backend_.ops, *backend_.device, pool_.get(),
                             options.progress, mode);
  model_ = OCTAVO_TRY(model::build_decoder(
      config, loader, {limits_.max_num_batched_tokens, limits_.max_logit_rows}));

  Device& device = *backend_.device;
  const int64_t max_rows = limits_.max_num_batched_tokens;
  int64_t scratch_bytes =
      backend_.ops.workspace_bytes(max_rows, config.widest_row(), pool_->num_threads());
  if (config.quantization != nullptr) {
    scratch_bytes += ops::prepared_input_bytes(max_rows, config.widest_row());
  }
  workspace_ = OCTAVO_TRY(device.allocate(scratch_bytes, "workspace"));
  const int64_t logit_values = limits_.max_logit_rows * config.vocab_size;
  logits_ =
      OCTAVO_TRY(device.allocate(logit_values * static_cast<int64_t>(sizeof(float)), "logits"));
  const int64_t hidden_values = limits_.max_num_batched_tokens * config.hidden_size;
  hidden_ = OCTAVO_TRY(
      device.allocate(hidden_values * static_cast<int64_t>(sizeof(float)), "hidden states"));
  const int64_t token_bytes = limits_.max_logit_rows * static_cast<int64_t>(sizeof(TokenId));
  tokens_ = OCTAVO_TRY(device.allocate(token_bytes, "tokens"));
  OCTAVO_TRY(choose_kv_cache(options, checkpoint.path()));
  batch_builder_ =
      std::make_unique<BatchBuilder>(device, model_->config(), kv_groups_.num_groups());
  return {};
}

Status ModelRunner::choose_kv_cache(const LoadOptions& options, const std::string& path) {
  const int64_t most = model_->config().max_model_len();
  if (options.max_model_len < 0 || options.max_model_len > most) {
    return invalid_argument(format("max_model_len is {}, but {} takes {} tokens at most",
                                   options.max_model_len, path, most));
  }
  max_model_len_ = options.max_model_len == 0 ? most : options.max_model_len;
  kv_dtype_ = OCTAVO_TRY(parse_kv_dtype(options.kv_cache_dtype, backend_));
  // Kernels on a GPU read whole tiles of keys, and block table entries with them, that begin before
  // what is seen: there nothing is given back.
  kv_groups_ = backend_.device->host_accessible()
                   ? model::group_layers(model_->config(), max_model_len_)
                   : model::one_group(model_->config());
  return {};
}

int64_t ModelRunner::kv_bytes_per_token() const {
  const model::ModelConfig& config = model_->config();
  return config.kv_rows_per_token() * ops::kv_row_bytes(kv_dtype_, config.head_dim);
}

int64_t ModelRunner::kv_block_bytes() const {
  const model::ModelConfig& config = model_->config();
  const int64_t rows = 2 * kv_groups_.layers_per_block * config.num_key_value_heads;
  return limits_.block_size * rows * ops::kv_row_bytes(kv_dtype_, config.head_dim);
}

Status ModelRunner::resize_kv_cache(int64_t num_blocks) {
  if (kv_ != nullptr && kv_->num_blocks() >= num_blocks) return {};
  // The host's memory is taken when it is touched, so that both may exist for a moment, and a
  // failure leaves the old one.
  return backend_.device->run([&]() -> Status {
    // A GPU has no memory for both.
    if (!backend_.device->host_accessible()) kv_ = nullptr;
    kv_ = std::make_unique<model::KvCache>(
        OCTAVO_TRY(model::KvCache::create(*backend_.device, model_->config(), kv_groups_, kv_dtype_,
                                          num_blocks, limits_.block_size)));
    static std::atomic<int64_t> num_records = 0;
    record_id_ = ++num_records;
    return {};
  });
}

Result<StepOutput> ModelRunner::forward(std::span<const ScheduledSlice> slices,
                                        std::span<const ops::RowDraw> draws) {
  OCTAVO_TRY(backend_.device->run([&] { return begin(slices, draws); }));
  return wait();
}

Status ModelRunner::begin(std::span<const ScheduledSlice> slices,
                          std::span<const ops::RowDraw> draws) {
  const auto is_draw = [](const ops::RowDraw& draw) { return draw.kind != ops::DrawKind::kNone; };
  if (backend_.ops.draw_tokens == nullptr || std::none_of(draws.begin(), draws.end(), is_draw)) {
    draws = {};
  }
  const model::ForwardBatch batch =
      OCTAVO_TRY(batch_builder_->build(slices, limits_.block_size, draws));
  OCTAVO_CHECK(batch.seqs.num_tokens <= limits_.max_num_batched_tokens);
  OCTAVO_CHECK(batch.num_logit_rows <= limits_.max_logit_rows);
  OCTAVO_CHECK(draws.empty() || static_cast<int64_t>(draws.size()) == batch.num_logit_rows);
  const model::ModelConfig& config = model_->config();
  step_ = {slices, {}};
  StepOutput& output = step_.output;
  output.logits =
      ops::Mat(logits_.data.get(), DType::kF32, batch.num_logit_rows, config.vocab_size);
  output.hidden =
      ops::Mat(hidden_.data.get(), DType::kF32, batch.num_hidden_rows, config.hidden_size);
  OCTAVO_TRY(run_model(batch, output));
  if (!draws.empty()) {
    ops::ExecContext ctx{pool_.get(), workspace_.as<std::byte>(), workspace_.size_bytes,
                         backend_.device};
    backend_.ops.draw_tokens(ctx, {tokens_.as<TokenId>(), output.logits, batch_builder_->draws()});
    output.tokens = {tokens_.as<TokenId>(), draws.size()};
  }
  return {};
}

// Makes the step's output lie in host memory; then all that was begun on the device has ended.
Result<StepOutput> ModelRunner::end() {
  StepOutput& output = step_.output;
  Device& device = *backend_.device;
  if (!device.host_accessible()) {
    ops::Mat& hidden = output.hidden;
    const int64_t hidden_bytes = dtype_bytes(hidden.dtype, hidden.rows * hidden.cols);
    OCTAVO_TRY(reserve_host(host_hidden_, hidden_bytes));
    device.copy_to_pinned(host_hidden_.data.get(), hidden.data, hidden_bytes);
    hidden.data = host_hidden_.data.get();
    const auto token_bytes = static_cast<int64_t>(output.tokens.size_bytes());
    OCTAVO_TRY(reserve_host(host_tokens_, token_bytes));
    device.copy_to_host(host_tokens_.data.get(), output.tokens.data(), token_bytes);
    if (!output.tokens.empty()) {
      output.tokens = {host_tokens_.as<TokenId>(), output.tokens.size()};
    }
    OCTAVO_TRY(fetch_logits());
    device.synchronize();
  }
  for (const ScheduledSlice& slice : step_.slices) {
    slice.sequence->num_computed_tokens += slice.num_known_tokens();
  }
  return output;
}

// The rows that have no token, neighbours in one copy.
Status ModelRunner::fetch_logits() {
  StepOutput& output = step_.output;
  ops::Mat& logits = output.logits;
  const int64_t row_bytes = dtype_bytes(logits.dtype, logits.cols);
  const std::byte* const from = static_cast<const std::byte*>(logits.data);
  for (int64_t begin = 0; begin < logits.rows;) {
    int64_t end = begin;
    while (end < logits.rows && output.token(end) < 0) ++end;
    if (end > begin) {
      OCTAVO_TRY(reserve_host(host_logits_, logits.rows * row_bytes));
      backend_.device->copy_to_pinned(host_logits_.data.get() + begin * row_bytes,
                                      from + begin * row_bytes, (end - begin) * row_bytes);
    }
    begin = end + 1;
  }
  logits.data = host_logits_.data.get();
  return {};
}

Status ModelRunner::reserve_host(Buffer& buffer, int64_t size_bytes) {
  if (buffer.size_bytes >= size_bytes) return {};
  buffer = OCTAVO_TRY(backend_.device->allocate_pinned(size_bytes, "a step's output"));
  return {};
}

Status ModelRunner::run_model(const model::ForwardBatch& batch, const StepOutput& output) {
  const auto work = [&]() -> Status {
    ops::ExecContext ctx{pool_.get(), workspace_.as<std::byte>(), workspace_.size_bytes,
                         backend_.device};
    model_->forward(ctx, batch, *kv_, output.logits, output.hidden);
    return {};
  };
  // Decodes repeat, but for models whose frequencies change; of experts the host must know what the
  // router chose.
  const ops::SequenceBatch& seqs = batch.seqs;
  const bool repeats = seqs.num_tokens == seqs.num_seqs && batch.rope_variants == nullptr;
  if (!repeats || has_experts()) return work();
  return backend_.device->run_recorded(
      {record_id_, reinterpret_cast<int64_t>(batch.token_ids), seqs.num_tokens,
       seqs.block_table_stride, batch.num_logit_rows, batch.num_hidden_rows},
      work);
}

Status ModelRunner::execute_async(const Plan& plan) {
  return backend_.device->run([&]() -> Status {
    for (const BlockCopy& copy : plan.copies) {
      kv_->copy_block(*backend_.device, copy.destination, copy.source);
    }
    return begin(plan.slices, plan.draws);
  });
}

Result<StepOutput> ModelRunner::wait() {
  StepOutput output;
  OCTAVO_TRY(backend_.device->run([&]() -> Status {
    output = OCTAVO_TRY(end());
    return {};
  }));
  return output;
}

}  // namespace octavo::engine
