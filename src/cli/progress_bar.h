// ProgressBar: one line on a terminal's standard error.
#pragma once

#include <cstdint>
#include <string>

namespace octavo::cli {

class ProgressBar {
 public:
  // `what` stands before the bar: "loading".
  explicit ProgressBar(std::string what) : what_(std::move(what)) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Whether there is a terminal to show it on; for anything else it would be noise.
  static bool wanted();

  // Draws only where what is seen changes. `unit` names what is counted; of bytes, megabytes are
  // shown.
  void show(int64_t done, int64_t total, const char* unit);
  void show_bytes(int64_t done, int64_t total) { show(done / 1000000, total / 1000000, "MB"); }
  void clear();

 private:
  std::string what_;
  std::string drawn_;
};

}  // namespace octavo::cli
