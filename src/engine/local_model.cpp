// The public Model on top of ModelRunner and Generator, and the loading of a model file.
#include "base/check.h"
#include "base/format.h"
#include "engine/generator.h"
#include "engine/tokenizer_files.h"
#include "formats/checkpoint.h"
#include "model/architectures.h"
#include "octavo/model.h"

namespace octavo {
namespace engine {
namespace {

class LocalModel final : public Model {
 public:
  static Result<std::unique_ptr<Model>> load(const std::string& path, const LoadOptions& options) {
    const auto checkpoint = OCTAVO_TRY(formats::open_checkpoint(path));
    auto model = std::make_unique<LocalModel>();
    model->runner_ = OCTAVO_TRY(ModelRunner::create(*checkpoint, options));
    auto tokenizer = tokenizer_of(*checkpoint);
    if (tokenizer.ok()) {
      model->tokenizer_ = std::move(tokenizer).value();
      OCTAVO_TRY(model->check_vocabulary(path));
    } else {
      model->tokenizer_status_ = tokenizer.status();
      model->stop_ids_ =
          OCTAVO_TRY(configured_stop_ids(*checkpoint, model->runner_->model().config().vocab_size));
    }
    model->generator_ = std::make_unique<Generator>(*model->runner_, model->tokenizer_.get());
    model->describe(path);
    return std::unique_ptr<Model>(std::move(model));
  }

  const ModelInfo& info() const override { return info_; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  const Status& tokenizer_status() const override { return tokenizer_status_; }

  Result<Logits> logits(std::span<const TokenId> ids, LogitsPositions positions) override {
    return generator_->logits(ids, positions);
  }
  Result<Logits> logits_from(std::span<const TokenId> ids, int64_t first_position) override {
    return generator_->logits_from(ids, first_position);
  }
  Result<Generation> generate(const Request& request, const OutputSink& sink) override {
    if (stop_ids_.empty() || request.sampling.ignore_eos) {
      return name_file(generator_->generate(request, sink));
    }
    Request stopping = request;
    std::vector<TokenId>& ids = stopping.sampling.stop_token_ids;
    ids.insert(ids.end(), stop_ids_.begin(), stop_ids_.end());
    return name_file(generator_->generate(stopping, sink));
  }
  Result<LatencyRun> measure_latency(int64_t batch_size, int64_t input_len,
                                     int64_t output_len) override {
    return name_file(generator_->measure_latency(batch_size, input_len, output_len));
  }

 private:
  // A fault of the weights (NaN) with the name of their file.
  template <typename T>
  Result<T> name_file(Result<T> result) const {
    if (result.status().code() != StatusCode::kInternal) return result;
    return internal_error(format("{}: {}", info_.path, result.status().message()));
  }

  // A vocabulary larger than the embedding would let a prompt address rows that do not exist; the
  // other way round is usual: embeddings are padded.
  Status check_vocabulary(const std::string& path) const {
    const int64_t rows = runner_->model().config().vocab_size;
    if (tokenizer_->vocab_size() <= rows) return {};
    return data_loss(format("{}: the vocabulary has {} tokens, the embedding only {} rows", path,
                            tokenizer_->vocab_size(), rows));
  }

  void describe(const std::string& path) {
    const model::CausalLM& lm = runner_->model();
    const backends::Backend& backend = runner_->backend();
    info_.path = path;
    info_.architecture = lm.config().architecture;
    info_.backend = backend.name;
    info_.kernels = backend.kernels;
    info_.dtype = backends::arithmetic_name(backend.arithmetic);
    info_.kv_cache_dtype = dtype_traits(runner_->kv_cache_dtype()).name;
    info_.threads = runner_->num_threads();
    info_.num_parameters = lm.totals().num_parameters;
    info_.weight_bytes = lm.totals().weight_bytes;
    info_.decode_bytes = lm.totals().decode_bytes;
    info_.vocab_size = lm.config().vocab_size;
    info_.max_model_len = runner_->max_model_len();
  }

  ModelInfo info_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Status tokenizer_status_;
  std::vector<TokenId> stop_ids_;  // of a model that runs without its tokenizer
  std::unique_ptr<Generator> generator_;
};

}  // namespace
}  // namespace engine

Result<std::unique_ptr<Model>> Model::load(const std::string& path, const LoadOptions& options) {
  return engine::LocalModel::load(path, options);
}

Result<MemoryNeeds> measure_memory(const std::string& path, const LoadOptions& options) {
  const auto checkpoint = OCTAVO_TRY(formats::open_checkpoint(path));
  return engine::ModelRunner::measure(*checkpoint, options);
}

bool supports_architecture(std::string_view name) {
  return model::find_gguf_architecture(name) != nullptr ||
         model::find_hf_architecture(name) != nullptr;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path) {
  const auto checkpoint = OCTAVO_TRY(formats::open_checkpoint(path));
  return engine::tokenizer_of(*checkpoint);
}

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
  }
  return "?";
}

}  // namespace octavo
