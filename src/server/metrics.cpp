#include "server/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/format.h"

namespace octavo::server {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return {text, end};
}

// As Prometheus's own clients write bounds: 1.0, 0.005.
std::string bound_text(double bound) {
  const std::string text = number(bound);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

std::string metric_labels(
    std::span<const std::pair<std::string_view, std::string_view>> name_value_pairs) {
  std::string text;
  for (const auto& [name, value] : name_value_pairs) {
    if (!text.empty()) text += ',';
    text += name;
    text += "=\"";
    for (const char c : value) {
      if (c == '\n') {
        text += "\\n";
        continue;
      }
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    text += '"';
  }
  return text;
}

void write_metric_head(std::string& out, std::string_view name, std::string_view type,
                       std::string_view help) {
  out += format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void write_sample(std::string& out, std::string_view name, std::string_view labels, double value) {
  out += name;
  if (!labels.empty()) out += format("{{{}}}", labels);
  out += ' ';
  out += number(value);
  out += '\n';
}

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value, int64_t times) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)] += times;
  sum_ += value * static_cast<double>(times);
}

void Histogram::write(std::string& out, std::string_view name, std::string_view labels) const {
  const std::string separator = labels.empty() ? "" : ",";
  int64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    const std::string bound = i < bounds_.size() ? bound_text(bounds_[i]) : "+Inf";
    write_sample(out, format("{}_bucket", name), format("{}{}le=\"{}\"", labels, separator, bound),
                 static_cast<double>(total));
  }
  write_sample(out, format("{}_sum", name), labels, sum_);
  write_sample(out, format("{}_count", name), labels, static_cast<double>(total));
}

std::vector<double> one_two_five_bounds(double most) {
  std::vector<double> bounds;
  for (double decade = 1; decade <= most; decade *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit * decade <= most) bounds.push_back(digit * decade);
    }
  }
  return bounds;
}

}  // namespace octavo::server
