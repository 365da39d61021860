// What `octavo serve` is told: by flags, by --config, by the environment.
#pragma once

#include <string>

#include "octavo/engine.h"
#include "server/http/http_server.h"
#include "server/server_config.h"

namespace octavo::cli {

struct ServeOptions {
  std::string model;
  std::string revision;
  EngineConfig engine;
  server::ServerConfig server;
  server::HttpServerOptions http;
  std::string config_file;
  std::string chat_template;  // a file or the text itself
  std::string generation_config = "auto";
  JsonObject override_generation_config;
  JsonObject hf_overrides;
  std::string log_level = "info";
  double shutdown_timeout_s = 0;
  bool disable_log_stats = false;
};

}  // namespace octavo::cli
