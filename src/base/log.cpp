#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/env.h"
#include "base/utf8.h"

namespace octavo {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto created = std::make_shared<spdlog::logger>(
        "octavo", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("octavo: %l: %v");
    const std::string level = env_string("OCTAVO_LOG");
    const spdlog::level::level_enum known = spdlog::level::from_str(level);
    const bool valid = known != spdlog::level::off || level == "off";  // unknown names give off
    created->set_level(valid && !level.empty() ? known : spdlog::level::warn);
    if (!valid && !level.empty()) {
      created->warn("OCTAVO_LOG is '{}', which must be debug, info, warning, error or off",
                    printable(level));
    }
    return created;
  }();
  return *instance;
}

}  // namespace

bool log_enabled(LogLevel level) {
  return logger().should_log(to_spdlog(level));
}

void set_default_log_level(LogLevel level) {
  if (env_string("OCTAVO_LOG").empty()) logger().set_level(to_spdlog(level));
}

void log_line(LogLevel level, std::string_view message) {
  const std::string text = printable(message);
  logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace octavo
