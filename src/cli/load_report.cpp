#include "cli/load_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/format.h"
#include "base/percentile.h"

namespace octavo::cli {
namespace {

constexpr int kReportWidth = 50;

constexpr const char* kDetailKeys[] = {"input_lens",  "output_lens", "ttfts",
                                       "itls",        "latencies",   "start_times",
                                       "queue_times", "errors",      "generated_texts"};

// " title " in the middle of a line of `fill`.
std::string banner(const std::string& title, char fill) {
  const size_t room = kReportWidth - std::min<size_t>(kReportWidth, title.size());
  return std::string(room / 2, fill) + title + std::string(room - room / 2, fill) + "\n";
}

std::string row(const std::string& label, const std::string& value) {
  return format("{:<40} {:<10}\n", label, value);
}
std::string row(const std::string& label, int64_t value) {
  return row(label, format("{}", value));
}
std::string row(const std::string& label, double value) {
  return row(label, format("{:.2f}", value));
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.empty()) return 0;
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// All latencies of the requests that succeeded, in seconds.
struct Latencies {
  std::vector<double> ttft, tpot, itl, e2el, queue, e2el_and_queue;
};

double time_per_output_token(const LoadRecord& record) {
  if (record.output_len < 2) return 0;
  return (record.latency - record.ttft) / static_cast<double>(record.output_len - 1);
}

Latencies latencies_of(const LoadRun& run) {
  Latencies all;
  for (const LoadRecord& record : run.records) {
    if (!record.success) continue;
    all.ttft.push_back(record.ttft);
    if (record.output_len > 1) all.tpot.push_back(time_per_output_token(record));
    all.itl.insert(all.itl.end(), record.itl.begin(), record.itl.end());
    all.e2el.push_back(record.latency);
    all.queue.push_back(record.queue_time);
    all.e2el_and_queue.push_back(record.latency + record.queue_time);
  }
  return all;
}

int64_t count_good(const LoadRun& run, const std::map<std::string, double>& goodput) {
  return std::count_if(run.records.begin(), run.records.end(), [&](const LoadRecord& record) {
    if (!record.success) return false;
    return std::all_of(goodput.begin(), goodput.end(), [&](const auto& objective) {
      const auto& [name, most_ms] = objective;
      const double value = name == "ttft"   ? record.ttft
                           : name == "tpot" ? time_per_output_token(record)
                                            : record.latency;
      return value * 1000 <= most_ms;
    });
  });
}

struct Peak {
  double tokens_per_s = 0;
  int64_t concurrent = 0;
};

// The fullest of the run's seconds.
Peak peak_of(const LoadRun& run) {
  double first = 0, last = 0;
  bool any = false;
  for (const LoadRecord& record : run.records) {
    if (!record.success) continue;
    const double end = record.start_time + record.latency;
    first = any ? std::min(first, record.start_time) : record.start_time;
    last = any ? std::max(last, end) : end;
    any = true;
  }
  if (!any) return {};
  const auto num_seconds = static_cast<size_t>(std::ceil(last - first)) + 1;
  std::vector<double> tokens(num_seconds, 0);
  std::vector<int64_t> running(num_seconds, 0);
  const auto second_of = [&](double time) {
    return std::min(static_cast<size_t>(std::max(0.0, time - first)), num_seconds - 1);
  };
  for (const LoadRecord& record : run.records) {
    if (!record.success) continue;
    double time = record.start_time + record.ttft;
    ++tokens[second_of(time)];
    for (const double gap : record.itl) {
      time += gap;
      ++tokens[second_of(time)];
    }
    const size_t end = second_of(record.start_time + record.latency);
    for (size_t second = second_of(record.start_time); second <= end; ++second) ++running[second];
  }
  return {*std::max_element(tokens.begin(), tokens.end()),
          *std::max_element(running.begin(), running.end())};
}

struct Section {
  const char* key;
  const char* name;
  const char* header;
  std::vector<double> Latencies::*values;
};

constexpr Section kSections[] = {
    {"ttft", "TTFT", "Time to First Token", &Latencies::ttft},
    {"tpot", "TPOT", "Time per Output Token (excl. 1st token)", &Latencies::tpot},
    {"itl", "ITL", "Inter-token Latency", &Latencies::itl},
    {"e2el", "E2EL", "End-to-end Latency", &Latencies::e2el},
    {"client_queue_time", "Client Queue Time", "Client-side Queueing", &Latencies::queue},
    {"e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency",
     &Latencies::e2el_and_queue},
};

void add_section(LoadReport& report, const Section& section, const std::vector<double>& seconds,
                 const std::vector<double>& percentiles) {
  report.text += banner(section.header, '-');
  const auto add = [&](const std::string& label, const std::string& key, double value_s) {
    if (!label.empty()) {
      report.text += row(format("{} {} (ms):", label, section.name), value_s * 1000);
    }
    report.json[format("{}_{}_ms", key, section.key)] = value_s * 1000;
  };
  add("Mean", "mean", mean(seconds));
  add("Median", "median", percentile(seconds, 50));
  add("", "std", deviation(seconds));
  for (const double percent : percentiles) {
    const std::string text = format("{}", percent);
    add("P" + text, "p" + text, percentile(seconds, percent));
  }
}

template <typename Fn>
JsonArray array_of(const LoadRun& run, const Fn& fn) {
  JsonArray array;
  for (const LoadRecord& record : run.records) array.emplace_back(fn(record));
  return array;
}

void add_details(JsonObject& json, const LoadRun& run) {
  json["input_lens"] = array_of(run, [](const auto& r) { return r.prompt_len; });
  json["output_lens"] = array_of(run, [](const auto& r) { return r.output_len; });
  json["ttfts"] = array_of(run, [](const auto& r) { return r.ttft; });
  json["itls"] = array_of(run, [](const auto& r) { return JsonArray(r.itl.begin(), r.itl.end()); });
  json["latencies"] = array_of(run, [](const auto& r) { return r.latency; });
  json["start_times"] = array_of(run, [](const auto& r) { return r.start_time; });
  json["queue_times"] = array_of(run, [](const auto& r) { return r.queue_time; });
  json["generated_texts"] = array_of(run, [](const auto& r) { return Json(r.text); });
  json["errors"] = array_of(run, [](const auto& r) { return Json(r.error); });
}

void add_totals(LoadReport& report, const LoadRun& run, const ReportOptions& options) {
  int64_t completed = 0, input = 0, output = 0;
  for (const LoadRecord& record : run.records) {
    if (!record.success) continue;
    ++completed;
    input += record.prompt_len;
    output += record.output_len;
  }
  const auto failed = static_cast<int64_t>(run.records.size()) - completed;
  const auto rate = [&](int64_t count) { return static_cast<double>(count) / run.duration_s; };
  const double goodput = rate(count_good(run, options.goodput));
  const Peak peak = peak_of(run);

  std::string& text = report.text;
  text += row("Successful requests:", completed) + row("Failed requests:", failed);
  if (options.max_concurrency > 0) {
    text += row("Maximum request concurrency:", options.max_concurrency);
  }
  if (std::isfinite(options.request_rate)) {
    text += row("Request rate configured (RPS):", options.request_rate);
  }
  text += row("Benchmark duration (s):", run.duration_s) + row("Total input tokens:", input) +
          row("Total generated tokens:", output) +
          row("Request throughput (req/s):", rate(completed));
  if (!options.goodput.empty()) text += row("Request goodput (req/s):", goodput);
  text += row("Output token throughput (tok/s):", rate(output)) +
          row("Peak output token throughput (tok/s):", peak.tokens_per_s) +
          row("Peak concurrent requests:", static_cast<double>(peak.concurrent)) +
          row("Total token throughput (tok/s):", rate(input + output));

  JsonObject& json = report.json;
  json["duration"] = run.duration_s;
  json["completed"] = completed;
  json["failed"] = failed;
  json["total_input_tokens"] = input;
  json["total_output_tokens"] = output;
  json["request_throughput"] = rate(completed);
  json["request_goodput"] = options.goodput.empty() ? Json(nullptr) : Json(goodput);
  json["output_throughput"] = rate(output);
  json["total_token_throughput"] = rate(input + output);
  add_details(json, run);
  json["max_output_tokens_per_s"] = peak.tokens_per_s;
  json["max_concurrent_requests"] = peak.concurrent;
}

LoadReport report_on(const LoadRun& run, const ReportOptions& options) {
  LoadReport report;
  add_totals(report, run, options);
  const Latencies latencies = latencies_of(run);
  for (const Section& section : kSections) {
    const auto& wanted = options.metrics;
    if (std::find(wanted.begin(), wanted.end(), section.key) == wanted.end()) continue;
    add_section(report, section, latencies.*section.values, options.percentiles);
  }
  return report;
}

// The same of each group, where answers name one.
void add_groups(LoadReport& report, const LoadRun& run, const ReportOptions& options) {
  std::map<std::string, LoadRun> groups;
  for (const LoadRecord& record : run.records) {
    if (!record.group.empty()) groups[record.group].records.push_back(record);
  }
  JsonObject json;
  for (auto& [name, group] : groups) {
    group.duration_s = run.duration_s;
    LoadReport part = report_on(group, options);
    remove_details(part.json);
    report.text += banner(format(" Group {} ", name), '=') + part.text;
    json[name] = std::move(part.json);
  }
  if (!json.empty()) report.json["groups"] = std::move(json);
}

}  // namespace

LoadReport make_report(const LoadRun& run, const ReportOptions& options) {
  LoadReport report = report_on(run, options);
  report.text.insert(0, banner(" Serving Benchmark Result ", '='));
  add_groups(report, run, options);
  report.text += std::string(kReportWidth, '=') + "\n";
  return report;
}

void remove_details(JsonObject& json) {
  for (const char* key : kDetailKeys) json.erase(key);
}

Result<std::map<std::string, double>> parse_goodput(const std::vector<std::string>& pairs) {
  std::map<std::string, double> goodput;
  for (const std::string& pair : pairs) {
    const size_t colon = std::min(pair.find(':'), pair.size());
    const std::string name = pair.substr(0, colon);
    if (name != "ttft" && name != "tpot" && name != "e2el") {
      return invalid_argument(
          format("--goodput: '{}' must be ttft, tpot or e2el, a colon, and milliseconds", pair));
    }
    double value = 0;
    const char* const end = pair.data() + pair.size();
    const char* const begin = std::min(pair.data() + colon + 1, end);
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || stop != end || !(value >= 0) || !std::isfinite(value)) {
      return invalid_argument(
          format("--goodput: '{}' must end with a number of milliseconds", pair));
    }
    goodput[name] = value;
  }
  return goodput;
}

}  // namespace octavo::cli
