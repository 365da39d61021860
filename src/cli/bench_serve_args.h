// The flags of `octavo bench serve`, which are those of `vllm bench serve`.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "cli/load_client.h"
#include "cli/load_report.h"
#include "cli/load_samples.h"

namespace octavo::cli {

// Fields of a request that are numbers, each with a flag of its name.
inline constexpr const char* kSamplingFields[] = {
    "temperature",       "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
    "repetition_penalty"};

struct ServeBenchArgs {
  std::string backend = "openai";
  std::string base_url;
  std::string host = "127.0.0.1";
  int64_t port = 8000;
  std::string endpoint;
  std::string model;
  std::string served_model_name;
  std::string tokenizer;
  std::vector<std::string> headers;
  std::string sampling[std::size(kSamplingFields)];
  std::string extra_body;
  std::optional<int64_t> logprobs;
  bool ignore_eos = false;
  std::optional<int64_t> input_len;
  std::optional<int64_t> output_len;
  bool no_self_timed = false;
  bool disable_tqdm = false;
  int64_t num_warmups = 0;
  std::string percentile_metrics = "ttft,tpot,itl";
  std::string metric_percentiles = "99";
  std::vector<std::string> goodput;
  bool save_result = false;
  bool save_detailed = false;
  bool append_result = false;
  std::string result_dir;
  std::string result_filename;
  std::string label;
  std::vector<std::string> metadata;
  DatasetOptions dataset;
  LoadTraffic traffic;
  ReportOptions report;

  // As Args::parse; fills `report`, and checks what can be checked without a server.
  std::optional<int> parse(int argc, const char* const* argv);
};

}  // namespace octavo::cli
