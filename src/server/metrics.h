// Numbers in the text form that Prometheus reads. (prometheus-cpp does the same, but Debian has no
// static library of it, and the command must run on a machine without it.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::server {

// Label values are escaped here: {{"model_name", "a\"b"}} becomes model_name="a\"b".
std::string metric_labels(
    std::span<const std::pair<std::string_view, std::string_view>> name_value_pairs);

// "# HELP" and "# TYPE"; before all samples of a name.
void write_metric_head(std::string& out, std::string_view name, std::string_view type,
                       std::string_view help);

// `labels` without braces; may be "".
void write_sample(std::string& out, std::string_view name, std::string_view labels, double value);

class Histogram {
 public:
  // Ascending upper bounds, without +Inf.
  explicit Histogram(std::vector<double> bounds);

  void observe(double value, int64_t times = 1);
  void write(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;  // one more than bounds: beyond the last
  double sum_ = 0;
};

// 1, 2, 5, 10, 20, 50, … up to the last that is not above `most`.
std::vector<double> one_two_five_bounds(double most);

}  // namespace octavo::server
