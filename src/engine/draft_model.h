// The smaller model that drafts for another: loading it, its share of the memory, its drafter.
#pragma once

#include <memory>

#include "engine/drafter.h"
#include "engine/loaded_model.h"
#include "engine/memory_plan.h"
#include "octavo/engine.h"

namespace octavo::engine {

// An error where its vocabulary is not that of `target`, with the first token that differs.
Result<LoadedModel> load_draft_model(const EngineConfig& config, const LoadedModel& target,
                                     const RunnerLimits& limits);

// Both models' weights and workspace, and in each KV block what the smaller one needs for its
// tokens.
void add_draft_model(const LoadedModel& draft, MemoryFacts& facts);

// Takes the memory that `plan`, of facts with this model, has for it.
Result<std::unique_ptr<Drafter>> make_model_drafter(LoadedModel draft, const ModelInfo& target,
                                                    const EngineConfig& config,
                                                    const MemoryPlan& plan);

}  // namespace octavo::engine
