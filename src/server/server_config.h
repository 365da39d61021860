// How the server behaves; the command line fills it in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "octavo/request.h"
#include "server/groups.h"

namespace octavo::server {

// How message contents reach a chat template: as one text, as a list of parts, or as what the
// template takes.
enum class ContentFormat { kAuto, kString, kOpenai };

struct ServerConfig {
  std::vector<std::string> served_model_names;  // the first is what answers say; not empty
  std::string version;
  std::vector<std::string> api_keys;  // none: everybody may
  std::string root_path;              // a prefix that a proxy leaves in the path

  std::vector<std::string> allowed_origins{"*"};
  std::vector<std::string> allowed_methods{"*"};
  std::vector<std::string> allowed_headers{"*"};
  bool allow_credentials = false;

  int64_t max_logprobs = 20;
  bool return_tokens_as_token_ids = false;
  bool enable_prompt_tokens_details = false;
  bool enable_force_include_usage = false;
  bool enable_request_id_headers = false;
  bool enable_server_load_tracking = false;
  bool enable_dev_endpoints = false;
  bool enable_log_requests = false;
  bool disable_access_log = false;
  bool show_hidden_metrics = false;
  bool exclude_tools_when_tool_choice_none = false;
  std::string response_role = "assistant";
  std::string chat_template;  // Jinja text in place of the model's own; "": the model's
  ContentFormat chat_template_content_format = ContentFormat::kAuto;
  bool trust_request_chat_template = false;
  PoolingParams pooling;  // of embeddings
  // Which `dimensions` requests may ask for: any, or these; none unless the model was trained so.
  bool is_matryoshka = false;
  std::vector<int64_t> matryoshka_dimensions;
  JsonObject default_chat_template_kwargs;
  // Of generation_config.json and --override-generation-config: what a request does not set.
  JsonObject default_sampling;
  GroupsConfig groups;  // of --ab-config
};

}  // namespace octavo::server
