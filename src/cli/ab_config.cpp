#include "cli/ab_config.h"

#include "base/check.h"
#include "base/format.h"
#include "cli/chat_template_file.h"
#include "cli/config_file.h"

namespace octavo::cli {

bool is_ab_config_file(const std::string& value) {
  return !value.empty() && !value.starts_with('{');
}

Result<server::GroupsConfig> read_ab_config(const std::string& value) {
  if (value.empty()) return server::GroupsConfig();
  const bool is_file = is_ab_config_file(value);
  const std::string source = is_file ? value : "--ab-config";
  const Json json = OCTAVO_TRY(is_file ? read_yaml_file(value) : parse_json(value, source));
  server::GroupsConfig config = OCTAVO_TRY(server::parse_groups(json, source));
  for (server::Group& group : config.groups) {
    Json* chat_template = group.defaults.if_contains("chat_template");
    if (chat_template == nullptr) continue;
    const std::string where = format("{}: chat_template of {}", source, group.name);
    const std::string given(to_view(chat_template->get_string()));
    *chat_template = OCTAVO_TRY(read_chat_template(given, where));
  }
  return config;
}

}  // namespace octavo::cli
