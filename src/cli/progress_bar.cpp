#include "cli/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/format.h"

namespace octavo::cli {
namespace {

constexpr int64_t kBarWidth = 30;

}  // namespace

bool ProgressBar::wanted() {
  return isatty(STDERR_FILENO) != 0;
}

void ProgressBar::show(int64_t done, int64_t total, const char* unit) {
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0;
  const auto filled = static_cast<int64_t>(kBarWidth * std::clamp(share, 0.0, 1.0));
  const std::string bar = std::string(static_cast<size_t>(filled), '#') +
                          std::string(static_cast<size_t>(kBarWidth - filled), ' ');
  std::string line = format("{} [{}] {} of {} {}", what_, bar, done, total, unit);
  if (line == drawn_) return;
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  drawn_ = std::move(line);
}

void ProgressBar::clear() {
  if (!drawn_.empty()) std::fputs("\r\033[K", stderr);
  drawn_.clear();
}

}  // namespace octavo::cli
