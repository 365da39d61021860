// A model file, loaded: what the single-caller Model and the engine both stand on.
#pragma once

#include <memory>
#include <string>

#include "engine/model_runner.h"
#include "octavo/model.h"
#include "octavo/tokenizer.h"

namespace octavo::engine {

struct LoadedModel {
  ModelInfo info;
  std::unique_ptr<ModelRunner> runner;   // without a KV cache
  std::unique_ptr<Tokenizer> tokenizer;  // null where the file has none
  Status tokenizer_status;               // why
  std::vector<TokenId> stop_ids;         // of a model that runs without its tokenizer
};

Result<LoadedModel> load_model(const std::string& path, const LoadOptions& options,
                               const RunnerLimits& limits = {});

}  // namespace octavo::engine
