#include "server/openai/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "base/check.h"
#include "base/format.h"
#include "server/openai/structured_fields.h"

namespace octavo::server {
namespace {

struct RefusedField {
  std::string_view name;
  std::string_view why;
};

// A value other than null, false, an empty string, array or object asks for the feature.
constexpr RefusedField kRefusedFields[] = {
    {"use_beam_search", "is not supported: octavo samples"},
    {"logprob_token_ids", "is not supported: use logprobs"},
    {"kv_transfer_params", "is not supported: keys and values are not transferred"},
    {"vllm_xargs", "is not supported: there are no custom samplers"},
    {"repetition_detection", "is not supported"},
    {"thinking_token_budget", "is not supported"},
    {"prompt_embeds", "is not supported: send text or token ids"},
    {"mm_processor_kwargs", "is not supported: models take text only"},
    {"audio", "is not supported: models take text only"},
    {"functions", "is not supported: they became tools"},
    {"function_call", "is not supported: it became tool_choice"},
};

// A seed that asks for a random one, in vLLM and llama.cpp too.
constexpr int64_t kRandomSeed = -1;

// Known, and without an effect here.
constexpr std::string_view kFieldsWithoutEffect[] = {"user",
                                                     "session_id",
                                                     "metadata",
                                                     "store",
                                                     "service_tier",
                                                     "safety_identifier",
                                                     "prompt_cache_key",
                                                     "best_of",
                                                     "length_penalty",
                                                     "guided_decoding_backend",
                                                     "spaces_between_special_tokens"};

bool asks_for_something(const Json& value) {
  if (value.is_bool()) return value.get_bool();
  if (value.is_string()) return !value.get_string().empty();
  if (value.is_array()) return !value.get_array().empty();
  if (value.is_object()) return !value.get_object().empty();
  return true;
}

void refuse_unsupported(Fields& fields) {
  for (const RefusedField& field : kRefusedFields) {
    const Json* value = fields.find(field.name);
    if (value != nullptr && asks_for_something(*value)) {
      fields.fail(unsupported(format("{} {}", field.name, field.why)));
    }
  }
  for (const std::string_view name : kFieldsWithoutEffect) fields.find(name);
}

void read_logit_bias(Fields& fields, std::vector<LogitBias>& biases) {
  const JsonObject* object = fields.read_object("logit_bias");
  if (object == nullptr) return;
  for (const auto& entry : *object) {
    const std::string_view key(entry.key().data(), entry.key().size());
    LogitBias bias;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), bias.token_id);
    if (error != std::errc() || end != key.data() + key.size() || !entry.value().is_number()) {
      return fields.fail("logit_bias", "must map token ids to numbers");
    }
    const double value = entry.value().to_number<double>();
    bias.bias = static_cast<float>(std::clamp(value, -100.0, 100.0));
    biases.push_back(bias);
  }
}

// Request before generation_config.json before the API's own default, which `params` holds.
void read_numbers(Fields& fields, SamplingParams& params) {
  fields.read("temperature", params.temperature);
  fields.read("top_p", params.top_p);
  fields.read("top_k", params.top_k);
  fields.read("min_p", params.min_p);
  fields.read("repetition_penalty", params.repetition_penalty);
  fields.read("presence_penalty", params.presence_penalty);
  fields.read("frequency_penalty", params.frequency_penalty);
}

void read_sampling(Fields& fields, const ServerConfig& config, SamplingParams& params) {
  Fields defaults(config.default_sampling);
  read_numbers(defaults, params);
  read_numbers(fields, params);
  std::optional<int64_t> seed;
  fields.read("seed", seed);
  if (seed && *seed != kRandomSeed) params.seed = static_cast<uint64_t>(*seed);
  read_logit_bias(fields, params.logit_bias);
  fields.read("bad_words", params.bad_words);
  fields.read("allowed_token_ids", params.allowed_token_ids);
  if (fields.find("allowed_token_ids") != nullptr && params.allowed_token_ids.empty()) {
    fields.fail("allowed_token_ids", "is empty: no token could be chosen");
  }
  fields.read("stop", params.stop);
  fields.read("stop_token_ids", params.stop_token_ids);
  fields.read("include_stop_str_in_output", params.include_stop_str_in_output);
  fields.read("ignore_eos", params.ignore_eos);
  fields.read("min_tokens", params.min_tokens);
  fields.read("prompt_logprobs", params.prompt_logprobs);
  if (params.prompt_logprobs && *params.prompt_logprobs > config.max_logprobs) {
    fields.fail("prompt_logprobs", format("must be at most {}", config.max_logprobs));
  }
}

void read_stream(Fields& fields, const ServerConfig& config, GenerationOptions& options) {
  fields.read("stream", options.stream);
  options.include_usage = options.stream && config.enable_force_include_usage;
  if (const JsonObject* object = fields.read_object("stream_options")) {
    if (!options.stream) fields.fail("stream_options", "is allowed only with stream");
    Fields inner(*object, "stream_options.");
    inner.read("include_usage", options.include_usage);
    inner.read("continuous_usage_stats", options.continuous_usage_stats);
    if (!inner.status().ok()) fields.fail(inner.status());
    options.continuous_usage_stats = options.continuous_usage_stats && options.include_usage;
  }
  if (options.stream && options.request.sampling.prompt_logprobs) {
    fields.fail("prompt_logprobs", "is not available with stream");
  }
}

}  // namespace

void read_max_tokens(Fields& fields, SamplingParams& params) {
  if (!fields.is_null("max_tokens")) params.max_tokens = 16;
  fields.read("max_tokens", params.max_tokens);
}

void read_max_completion_tokens(Fields& fields, SamplingParams& params) {
  std::optional<int64_t> most;
  fields.read("max_completion_tokens", most);
  if (!most) return;
  if (*most < 1) fields.fail("max_completion_tokens", "must be at least 1");
  params.max_tokens = most;
}

void limit_max_tokens(const ServerConfig& config, SamplingParams& params) {
  std::optional<int64_t> limit;
  Fields(config.default_sampling).read("max_new_tokens", limit);
  if (limit) params.max_tokens = std::min(params.max_tokens.value_or(*limit), *limit);
}

Result<SamplingParams> read_default_sampling(const ServerConfig& config) {
  Fields fields(config.default_sampling);
  SamplingParams params;
  read_numbers(fields, params);
  fields.read("max_new_tokens", params.max_tokens);
  OCTAVO_TRY(fields.status());
  return params;
}

void read_truncation(Fields& fields, GenerationOptions& options) {
  fields.read("truncate_prompt_tokens", options.truncate_prompt_tokens);
  const int64_t most = options.truncate_prompt_tokens.value_or(-1);
  if (most < -1 || most == 0) {
    fields.fail("truncate_prompt_tokens", "must be 1 or more, or -1 for what the context holds");
  }
  std::string side = "left";
  fields.read("truncation_side", side);
  if (side != "left" && side != "right") fields.fail("truncation_side", "must be left or right");
  options.truncates_left = side == "left";
}

GenerationOptions read_generation_options(Fields& fields, const ServerConfig& config) {
  GenerationOptions options;
  EngineRequest& request = options.request;
  refuse_unsupported(fields);
  read_sampling(fields, config, request.sampling);
  read_structured_outputs(fields, request.sampling);
  read_stream(fields, config, options);
  fields.read("n", request.n);
  fields.read("priority", request.priority);
  fields.read("cache_salt", request.cache_salt);
  if (fields.find("cache_salt") != nullptr && request.cache_salt.empty()) {
    fields.fail("cache_salt", "must not be empty");
  }
  bool skip_special_tokens = true;
  fields.read("skip_special_tokens", skip_special_tokens);
  request.show_special_tokens = !skip_special_tokens;
  options.return_tokens_as_token_ids = config.return_tokens_as_token_ids;
  fields.read("return_tokens_as_token_ids", options.return_tokens_as_token_ids);
  fields.read("return_token_ids", options.return_token_ids);
  read_truncation(fields, options);
  fields.read("request_id", options.request_id);
  request.output_kind = options.stream ? OutputKind::kDelta : OutputKind::kFinalOnly;
  return options;
}

Status cut_prompt(std::vector<TokenId>& token_ids, const GenerationOptions& options,
                  int64_t max_model_len) {
  // An answer needs a token of the context, an embedding none.
  const int64_t most_tokens = options.request.pooling ? max_model_len : max_model_len - 1;
  if (options.truncate_prompt_tokens) {
    const int64_t limit = *options.truncate_prompt_tokens;
    if (limit > max_model_len) {
      return invalid_argument(format("truncate_prompt_tokens is {}, but the context has {} tokens",
                                     limit, max_model_len));
    }
    const int64_t most = limit >= 0 ? limit : most_tokens;
    const auto length = static_cast<int64_t>(token_ids.size());
    if (length > most && options.truncates_left) {
      token_ids.erase(token_ids.begin(), token_ids.end() - most);
    } else if (length > most) {
      token_ids.resize(static_cast<size_t>(most));
    }
  }
  const auto length = static_cast<int64_t>(token_ids.size());
  if (length <= most_tokens) return {};
  return invalid_argument(
      format("This model's maximum context length is {} tokens. However, your request has {} input "
             "tokens. Please reduce the length of the input messages.",
             max_model_len, length));
}

Status check_model(Fields& fields, const ServerConfig& config) {
  std::string model;
  fields.read("model", model);
  const auto& names = config.served_model_names;
  if (model.empty() || std::find(names.begin(), names.end(), model) != names.end()) return {};
  return not_found(format("The model `{}` does not exist.", model));
}

}  // namespace octavo::server
