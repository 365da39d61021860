#include "engine/loaded_model.h"

#include "base/check.h"
#include "base/format.h"
#include "engine/tokenizer_files.h"
#include "formats/checkpoint.h"

namespace octavo::engine {
namespace {

// A vocabulary larger than the embedding would let a prompt address rows that do not exist; the
// other way round is usual: embeddings are padded.
Status check_vocabulary(const LoadedModel& model, const std::string& path) {
  const int64_t rows = model.runner->model().config().vocab_size;
  if (model.tokenizer->vocab_size() <= rows) return {};
  return data_loss(format("{}: the vocabulary has {} tokens, the embedding only {} rows", path,
                          model.tokenizer->vocab_size(), rows));
}

ModelInfo describe(const ModelRunner& runner, const std::string& path) {
  const model::CausalLM& lm = runner.model();
  const backends::Backend& backend = runner.backend();
  ModelInfo info;
  info.path = path;
  info.architecture = lm.config().architecture;
  info.backend = backend.name;
  info.kernels = backend.kernels;
  info.dtype = backends::arithmetic_name(backend.arithmetic);
  info.kv_cache_dtype = dtype_traits(runner.kv_cache_dtype()).name;
  info.attention = backends::describe(runner.attention());
  info.threads = runner.num_threads();
  info.num_parameters = lm.totals().num_parameters;
  info.weight_bytes = lm.totals().weight_bytes;
  info.decode_bytes = lm.totals().decode_bytes;
  info.vocab_size = lm.config().vocab_size;
  info.hidden_size = lm.config().hidden_size;
  info.max_model_len = runner.max_model_len();
  return info;
}

}  // namespace

Result<LoadedModel> load_model(const std::string& path, const LoadOptions& options,
                               const RunnerLimits& limits) {
  const auto checkpoint = OCTAVO_TRY(formats::open_checkpoint(path));
  LoadedModel model;
  model.runner = OCTAVO_TRY(ModelRunner::create(*checkpoint, options, limits));
  auto tokenizer = tokenizer_of(*checkpoint);
  if (tokenizer.ok()) {
    model.tokenizer = std::move(tokenizer).value();
    OCTAVO_TRY(check_vocabulary(model, path));
  } else {
    model.tokenizer_status = tokenizer.status();
    model.stop_ids =
        OCTAVO_TRY(configured_stop_ids(*checkpoint, model.runner->model().config().vocab_size));
  }
  model.info = describe(*model.runner, path);
  return model;
}

}  // namespace octavo::engine
