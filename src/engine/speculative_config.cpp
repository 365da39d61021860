#include "engine/speculative_config.h"

#include "base/check.h"
#include "base/format.h"
#include "engine/ngram_drafter.h"

namespace octavo::engine {
namespace {

constexpr int64_t kMostTokens = 64;
constexpr int64_t kMostLookup = 1024;
constexpr int64_t kDefaultLookup = 5;  // as in vLLM

// A row of a step, as a share of what the step takes anyway. On 2 cores of a Zen 4 SmolLM2-135M
// Q4_1 takes 3.63 ms for one row and 0.6 ms for each further one up to 5. An H200 with a Llama of
// 8B in bfloat16 takes 4.0 ms for one and 8.4 ms for 128, that is 0.01; three times that, because a
// step with drafts is not recorded. Twice as much makes drafts shorter, no answer other.
constexpr double kHostRowCost = 0.2;
constexpr double kGpuRowCost = 0.03;

Status check_field(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid_argument(
      format("speculative_config: {} is {}, which must lie in {}..{}", field, value, least, most));
}

Status resolve_ngram(SpeculativeConfig& config) {
  if (!config.model.empty()) {
    return invalid_argument("speculative_config: the method ngram takes no model");
  }
  int64_t& least = config.prompt_lookup_min;
  int64_t& most = config.prompt_lookup_max;
  OCTAVO_TRY(check_field("prompt_lookup_min", least, 0, kMostLookup));
  OCTAVO_TRY(check_field("prompt_lookup_max", most, 0, kMostLookup));
  if (least == 0 && most == 0) most = kDefaultLookup;
  if (least == 0) least = most;
  if (most == 0) most = least;
  if (least <= most) return {};
  return invalid_argument(format(
      "speculative_config: prompt_lookup_min is {}, more than prompt_lookup_max, {}", least, most));
}

Status resolve_draft_model(SpeculativeConfig& config) {
  if (config.model.empty()) {
    return invalid_argument("speculative_config: the method draft_model needs a model");
  }
  if (config.prompt_lookup_min == 0 && config.prompt_lookup_max == 0) return {};
  return invalid_argument(
      "speculative_config: prompt_lookup_min and prompt_lookup_max belong to the method ngram");
}

constexpr struct {
  std::string_view name;
  Status (*resolve)(SpeculativeConfig& config);
} kMethods[] = {{"ngram", resolve_ngram}, {"draft_model", resolve_draft_model}};

}  // namespace

Result<SpeculativeConfig> resolve_speculative_config(const SpeculativeConfig& config) {
  SpeculativeConfig resolved = config;
  if (config.method.empty()) resolved.method = config.model.empty() ? "ngram" : "draft_model";
  std::string known;
  for (const auto& method : kMethods) {
    known += format("{}{}", known.empty() ? "" : " or ", method.name);
    if (method.name != resolved.method) continue;
    OCTAVO_TRY(method.resolve(resolved));
    OCTAVO_TRY(
        check_field("num_speculative_tokens", config.num_speculative_tokens, 1, kMostTokens));
    return resolved;
  }
  return unsupported(
      format("speculative_config: method '{}' is not known: use {}", config.method, known));
}

std::unique_ptr<Speculator> make_speculator(const SpeculativeConfig& config,
                                            const ModelRunner& runner,
                                            std::unique_ptr<Drafter> draft_model) {
  SpeculatorConfig speculator;
  speculator.num_speculative_tokens = config.num_speculative_tokens;
  speculator.row_cost = runner.backend().device->host_accessible() ? kHostRowCost : kGpuRowCost;
  if (draft_model == nullptr) {
    draft_model =
        std::make_unique<NgramDrafter>(config.prompt_lookup_min, config.prompt_lookup_max);
  }
  return std::make_unique<Speculator>(speculator, std::move(draft_model));
}

}  // namespace octavo::engine
