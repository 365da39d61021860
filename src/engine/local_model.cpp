// The public Model on top of ModelRunner and Generator, and the loading of a model file.
#include "base/check.h"
#include "base/format.h"
#include "engine/generator.h"
#include "engine/loaded_model.h"
#include "engine/request_check.h"
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
    auto model = std::make_unique<LocalModel>();
    model->loaded_ = OCTAVO_TRY(load_model(path, options));
    model->generator_ = OCTAVO_TRY(Generator::create(*model->loaded_.runner, model->tokenizer()));
    return std::unique_ptr<Model>(std::move(model));
  }

  const ModelInfo& info() const override { return loaded_.info; }
  const Tokenizer* tokenizer() const override { return loaded_.tokenizer.get(); }
  const Status& tokenizer_status() const override { return loaded_.tokenizer_status; }

  Result<Logits> logits(std::span<const TokenId> ids, LogitsPositions positions) override {
    return generator_->logits(ids, positions);
  }
  Result<Logits> logits_from(std::span<const TokenId> ids, int64_t first_position) override {
    return generator_->logits_from(ids, first_position);
  }
  Result<Generation> generate(const Request& request, const OutputSink& sink) override {
    if (loaded_.stop_ids.empty()) return name_file(generator_->generate(request, sink));
    Request stopping = request;
    add_stop_ids(stopping.sampling, loaded_.stop_ids);
    return name_file(generator_->generate(stopping, sink));
  }
  std::vector<PageTableRow> page_table() const override { return generator_->page_table(); }
  Result<LatencyRun> measure_latency(int64_t batch_size, int64_t input_len,
                                     int64_t output_len) override {
    return name_file(generator_->measure_latency(batch_size, input_len, output_len));
  }

 private:
  // A fault of the weights (NaN) with the name of their file.
  template <typename T>
  Result<T> name_file(Result<T> result) const {
    if (result.status().code() != StatusCode::kInternal) return result;
    return internal_error(format("{}: {}", loaded_.info.path, result.status().message()));
  }

  LoadedModel loaded_;
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
  return model::find_gguf_architecture(name, false) != nullptr ||
         model::find_gguf_architecture(name, true) != nullptr ||
         model::find_hf_architecture(name) != nullptr;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path) {
  return engine::tokenizer_at(path);
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
