// Log lines on stderr: `octavo: warning: …`. The only wrapper of spdlog. OCTAVO_LOG sets the least
// level shown: debug, info, warning (default), error or off.
#pragma once

#include <string_view>
#include <utility>

#include "base/format.h"

namespace octavo {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

bool log_enabled(LogLevel level);

// The least level shown where OCTAVO_LOG does not say.
void set_default_log_level(LogLevel level);

void log_line(LogLevel level, std::string_view message);

template <typename... Args>
void log_debug(fmt::format_string<Args...> pattern, Args&&... args) {
  if (log_enabled(LogLevel::kDebug))
    log_line(LogLevel::kDebug, octavo::format(pattern, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> pattern, Args&&... args) {
  if (log_enabled(LogLevel::kInfo))
    log_line(LogLevel::kInfo, octavo::format(pattern, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> pattern, Args&&... args) {
  if (log_enabled(LogLevel::kWarning))
    log_line(LogLevel::kWarning, octavo::format(pattern, std::forward<Args>(args)...));
}

}  // namespace octavo
