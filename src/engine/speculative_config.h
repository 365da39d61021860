// How a user's wish to speculate becomes a Speculator.
#pragma once

#include <memory>

#include "engine/model_runner.h"
#include "engine/speculator.h"
#include "octavo/engine.h"
#include "octavo/status.h"

namespace octavo::engine {

// The same with all choices made; the error names the field.
Result<SpeculativeConfig> resolve_speculative_config(const SpeculativeConfig& config);

// `config` must be resolved; `runner` is what checks the drafts. `draft_model` is null where the
// method has none.
std::unique_ptr<Speculator> make_speculator(const SpeculativeConfig& config,
                                            const ModelRunner& runner,
                                            std::unique_ptr<Drafter> draft_model);

}  // namespace octavo::engine
