// What a command that runs an engine is told: by flags, by --config, by the environment.
#pragma once

#include <string>

#include "octavo/engine.h"
#include "server/http/http_server.h"
#include "server/server_config.h"

namespace octavo::cli {

struct GenerateOptions {
  std::string input;
  std::string output;
  bool overwrite = false;
  bool debug_page_table = false;
  int64_t max_tokens = 0;  // of answers whose line does not say; 0: what the context holds
};

struct ThroughputOptions {
  std::string dataset_name = "random";
  std::string dataset_path;
  int64_t num_prompts = 1000;
  int64_t input_len = 1024;
  int64_t output_len = 0;  // 0: what the trace says, or 128
  int64_t prefix_len = 0;
  int64_t n = 1;
  int64_t seed = 0;
  double temperature = 1;
  std::string output_json;
};

struct ServeOptions {
  std::string model;
  std::string revision;
  EngineConfig engine;
  server::ServerConfig server;
  server::HttpServerOptions http;
  std::string config_file;
  std::string chat_template;  // a file or the text itself
  std::string ab_config;      // a file or JSON
  std::string generation_config = "auto";
  JsonObject override_generation_config;
  JsonObject hf_overrides;
  std::string log_level = "info";
  double shutdown_timeout_s = 0;
  bool disable_log_stats = false;
  GenerateOptions generate;
  ThroughputOptions throughput;
};

}  // namespace octavo::cli
