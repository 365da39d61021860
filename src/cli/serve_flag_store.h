// How the value of a flag becomes an option: one function for each type, and those of the flags
// that are peculiar. Errors do not name the flag; the caller does.
#pragma once

#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "cli/serve_options.h"
#include "octavo/status.h"

namespace octavo::cli {

using Options = ServeOptions;

Status parse_option(const std::string& value, std::string& out);
Status parse_option(const std::string& value, bool& out);
Status parse_option(const std::string& value, int64_t& out);  // 4096, 4k (4000), 4K (4096)
Status parse_option(const std::string& value, int& out);      // 0..65535
Status parse_option(const std::string& value, double& out);   // >= 0
Status parse_option(const std::string& value, std::vector<std::string>& out);  // adds
Status parse_option(const std::string& value, JsonObject& out);                // merges

// The option that `Member` picks, whatever its type.
template <auto Member>
Status store(Options& options, const std::string& value) {
  return parse_option(value, Member(options));
}

// A JSON array as vLLM has it, or one value.
Status parse_json_list(const std::string& value, std::vector<std::string>& out);
template <auto Member>
Status store_json_list(Options& options, const std::string& value) {
  return parse_json_list(value, Member(options));
}

Status store_max_model_len(Options& options, const std::string& value);
Status store_max_logprobs(Options& options, const std::string& value);
Status store_dtype(Options& options, const std::string& value);
Status store_speculative_config(Options& options, const std::string& value);
Status store_scheduling_policy(Options& options, const std::string& value);
Status store_kv_cache_quantization(Options& options, const std::string& value);
Status store_cert_reqs(Options& options, const std::string& value);
Status store_content_format(Options& options, const std::string& value);
Status store_header_limit(Options& options, const std::string& value);
Status store_max_connections(Options& options, const std::string& value);
Status store_body_limit(Options& options, const std::string& value);
Status store_runner(Options& options, const std::string& value);
Status store_convert(Options& options, const std::string& value);
Status store_task(Options& options, const std::string& value);
Status store_pooler_config(Options& options, const std::string& value);
Status store_hf_overrides(Options& options, const std::string& value);
Status store_hidden_metrics(Options& options, const std::string& value);

}  // namespace octavo::cli
