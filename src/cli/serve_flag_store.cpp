#include "cli/serve_flag_store.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/format.h"

namespace octavo::cli {

Status parse_option(const std::string& value, std::string& out) {
  out = value;
  return {};
}

Status parse_option(const std::string& value, bool& out) {
  if (value != "true" && value != "false") return invalid_argument("must be true or false");
  out = value == "true";
  return {};
}

// 4096, 4k (thousand), 4K (1024); m, M, g, G likewise.
Status parse_option(const std::string& value, int64_t& out) {
  constexpr std::string_view kSuffixes = "kKmMgG";
  constexpr double kFactors[] = {1e3, 1 << 10, 1e6, 1 << 20, 1e9, 1 << 30};
  const char* const end = value.data() + value.size();
  double number = 0;
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  double factor = 1;
  if (error == std::errc() && stop + 1 == end) {
    const size_t suffix = kSuffixes.find(*stop);
    if (suffix == std::string_view::npos) return invalid_argument("must be a whole number");
    factor = kFactors[suffix];
  } else if (error != std::errc() || stop != end) {
    return invalid_argument("must be a whole number");
  }
  number *= factor;
  if (!(std::fabs(number) < 9e15) || std::trunc(number) != number) {
    return invalid_argument("must be a whole number");
  }
  out = static_cast<int64_t>(number);
  return {};
}

Status parse_option(const std::string& value, int& out) {
  int64_t wide = 0;
  OCTAVO_TRY(parse_option(value, wide));
  if (wide < 0 || wide > 65535) return invalid_argument("must lie in 0..65535");
  out = static_cast<int>(wide);
  return {};
}

Status parse_option(const std::string& value, double& out) {
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error != std::errc() || stop != value.data() + value.size() || !(out >= 0) ||
      !std::isfinite(out)) {
    return invalid_argument("must be a number from 0 on");
  }
  return {};
}

// An empty key, as of a variable that is not set, would let in who sends none.
Status parse_option(const std::string& value, std::vector<std::string>& out) {
  if (value.empty()) return invalid_argument("must not be empty");
  out.push_back(value);
  return {};
}

Status parse_option(const std::string& value, JsonObject& out) {
  const Json json = OCTAVO_TRY(parse_json(value, "the value"));
  if (!json.is_object()) return invalid_argument("must be a JSON object");
  for (const auto& entry : json.get_object()) out[entry.key()] = entry.value();
  return {};
}

Status store_max_model_len(Options& options, const std::string& value) {
  if (value == "auto" || value == "-1") return {};
  OCTAVO_TRY(parse_option(value, options.engine.max_model_len));
  return options.engine.max_model_len > 0 ? Status()
                                          : invalid_argument("must be above 0, -1 or auto");
}

Status store_max_logprobs(Options& options, const std::string& value) {
  constexpr int64_t kMost = 20;  // that the engine takes
  int64_t number = 0;
  OCTAVO_TRY(parse_option(value, number));
  if (number < -1 || number > kMost) return unsupported(format("can be 0 to {}, or -1", kMost));
  options.server.max_logprobs = number < 0 ? kMost : number;
  return {};
}

Status store_dtype(Options& options, const std::string& value) {
  if (value != "auto" && value != "bfloat16" && value != "float32" && value != "float") {
    return unsupported("can be auto, bfloat16 or float32");
  }
  options.engine.dtype = value == "float" ? "float32" : value;
  return {};
}

Status store_scheduling_policy(Options& options, const std::string& value) {
  if (value != "fcfs" && value != "priority") return invalid_argument("must be fcfs or priority");
  options.engine.scheduling_policy =
      value == "priority" ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
  return {};
}

Status store_kv_cache_quantization(Options& options, const std::string& value) {
  bool quantized = false;
  OCTAVO_TRY(parse_option(value, quantized));
  if (quantized) options.engine.kv_cache_dtype = "int8";
  return {};
}

Status parse_json_list(const std::string& value, std::vector<std::string>& out) {
  out.clear();
  if (!value.starts_with('[')) return parse_option(value, out);
  const Json json = OCTAVO_TRY(parse_json(value, "the value"));
  for (const Json& entry : json.get_array()) {
    if (!entry.is_string()) return invalid_argument("must be a JSON array of strings");
    out.emplace_back(to_view(entry.get_string()));
  }
  return {};
}

Status store_cert_reqs(Options& options, const std::string& value) {
  if (value != "0" && value != "2") return unsupported("can be 0 (none) or 2 (required)");
  options.http.ssl_require_client_cert = value == "2";
  return {};
}

Status store_content_format(Options& options, const std::string& value) {
  server::ContentFormat& format = options.server.chat_template_content_format;
  if (value == "auto") {
    format = server::ContentFormat::kAuto;
  } else if (value == "string") {
    format = server::ContentFormat::kString;
  } else if (value == "openai") {
    format = server::ContentFormat::kOpenai;
  } else {
    return invalid_argument("must be auto, string or openai");
  }
  return {};
}

Status store_header_limit(Options& options, const std::string& value) {
  int64_t bytes = 0;
  OCTAVO_TRY(parse_option(value, bytes));
  if (bytes < 1024 || bytes > (64 << 20)) return invalid_argument("must lie in 1K..64M");
  options.http.limits.header_bytes = static_cast<uint32_t>(bytes);
  return {};
}

Status store_max_connections(Options& options, const std::string& value) {
  OCTAVO_TRY(parse_option(value, options.http.max_connections));
  return options.http.max_connections > 0 ? Status() : invalid_argument("must be at least 1");
}

Status store_body_limit(Options& options, const std::string& value) {
  int64_t bytes = 0;
  OCTAVO_TRY(parse_option(value, bytes));
  if (bytes < 1024) return invalid_argument("must be at least 1K");
  options.http.limits.body_bytes = static_cast<uint64_t>(bytes);
  return {};
}

namespace {

Status check_is_one_of(const std::string& value, std::initializer_list<std::string_view> values) {
  if (std::find(values.begin(), values.end(), value) != values.end()) return {};
  std::string list;
  for (const std::string_view one : values) list += format("{}{}", list.empty() ? "" : ", ", one);
  return unsupported("can be " + list);
}

Status store_pooling_type(const Json& value, PoolingParams& pooling) {
  std::string name = value.is_string() ? std::string(to_view(value.get_string())) : "";
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (name != "LAST" && name != "MEAN") return unsupported("pooling_type can be LAST or MEAN");
  pooling.pooling_type = name == "MEAN" ? PoolingType::kMean : PoolingType::kLast;
  return {};
}

}  // namespace

Status store_runner(Options&, const std::string& value) {
  return check_is_one_of(value, {"auto", "generate", "pooling"});
}

Status store_convert(Options&, const std::string& value) {
  return check_is_one_of(value, {"auto", "none", "embed"});
}

Status store_task(Options&, const std::string& value) {
  return check_is_one_of(value, {"auto", "generate", "embed", "embedding"});
}

// Newer and older names of the same, as vLLM has had them.
Status store_pooler_config(Options& options, const std::string& value) {
  JsonObject object;
  OCTAVO_TRY(parse_option(value, object));
  PoolingParams& pooling = options.server.pooling;
  for (const auto& entry : object) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (entry.value().is_null()) continue;
    if (key == "pooling_type" || key == "seq_pooling_type") {
      OCTAVO_TRY(store_pooling_type(entry.value(), pooling));
    } else if (key == "normalize" || key == "use_activation") {
      pooling.normalize = OCTAVO_TRY(json_bool(object, key, "the value"));
    } else if (key == "dimensions") {
      pooling.dimensions = OCTAVO_TRY(json_int(object, key, "the value"));
      if (pooling.dimensions < 1) return invalid_argument("dimensions must be at least 1");
    } else {
      return unsupported(
          format("'{}' is not known: use pooling_type, normalize or dimensions", key));
    }
  }
  return {};
}

// Merged, so that --speculative-config.method and the like may come one by one.
Status store_speculative_config(Options& options, const std::string& value) {
  JsonObject object;
  OCTAVO_TRY(parse_option(value, object));
  if (object.empty()) return {};
  std::optional<SpeculativeConfig>& stored = options.engine.speculative_config;
  SpeculativeConfig config = stored.value_or(SpeculativeConfig());
  const std::pair<std::string_view, std::string*> texts[] = {{"method", &config.method},
                                                             {"model", &config.model}};
  const std::pair<std::string_view, int64_t*> numbers[] = {
      {"num_speculative_tokens", &config.num_speculative_tokens},
      {"prompt_lookup_max", &config.prompt_lookup_max},
      {"prompt_lookup_min", &config.prompt_lookup_min}};
  for (const auto& entry : object) {
    const std::string_view key(entry.key().data(), entry.key().size());
    const auto is_key = [&](const auto& field) { return field.first == key; };
    const auto* const text = std::find_if(std::begin(texts), std::end(texts), is_key);
    const auto* const number = std::find_if(std::begin(numbers), std::end(numbers), is_key);
    if (text == std::end(texts) && number == std::end(numbers)) {
      return unsupported(
          format("'{}' is not known: use method, model, num_speculative_tokens, prompt_lookup_max "
                 "or prompt_lookup_min",
                 key));
    }
    if (entry.value().is_null()) continue;
    if (text != std::end(texts)) {
      *text->second = OCTAVO_TRY(json_string(object, key, "the value"));
    } else {
      *number->second = OCTAVO_TRY(json_int(object, key, "the value"));
    }
  }
  stored = std::move(config);
  return {};
}

Status store_hf_overrides(Options& options, const std::string& value) {
  OCTAVO_TRY(parse_option(value, options.hf_overrides));
  for (const auto& entry : options.hf_overrides) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (key == "is_matryoshka" || key == "matryoshka_dimensions") continue;
    return unsupported(format("'{}' cannot be overridden: edit the model's config.json", key));
  }
  return {};
}

Status store_hidden_metrics(Options& options, const std::string&) {
  options.server.show_hidden_metrics = true;
  return {};
}

}  // namespace octavo::cli
