#include "server/group_metrics.h"

#include <algorithm>

#include "base/format.h"
#include "server/latency_bounds.h"

namespace octavo::server {

void GroupWindow::add(const GroupWindow& other) {
  num_requests += other.num_requests;
  num_errors += other.num_errors;
  num_aborted += other.num_aborted;
  prompt_tokens += other.prompt_tokens;
  generation_tokens += other.generation_tokens;
  ttft.add(other.ttft);
  itl.add(other.itl);
  tpot.add(other.tpot);
  e2e.add(other.e2e);
}

GroupMetrics::GroupMetrics(double window_s, double start)
    : slot_s_(window_s / kNumSlots),
      start_(start),
      slots_(kNumSlots),
      ttft_(kFirstTokenBounds),
      itl_(kTokenBounds),
      e2e_(kRequestBounds) {
  for (const char* reason : kFinishedReasons) finished_[reason] = 0;
}

int64_t GroupMetrics::slot_number(double now) const {
  return static_cast<int64_t>(std::max(0.0, now - start_) / slot_s_);
}

GroupWindow& GroupMetrics::slot_at(double now) {
  const int64_t number = slot_number(now);
  Slot& slot = slots_[static_cast<size_t>(number) % kNumSlots];
  if (slot.number < number) slot = {number, {}};
  return slot.window;
}

void GroupMetrics::observe_inter_token_latency(double now, double seconds, int64_t times) {
  itl_.observe(seconds, times);
  slot_at(now).itl.observe(seconds, times);
}

void GroupMetrics::observe_finished(double now, const FinishedRequest& request) {
  ++finished_[request.finished_reason];
  prompt_tokens_ += request.num_prompt_tokens();
  generation_tokens_ += request.usage.completion_tokens;
  const auto ttft_s = request.ttft_s();
  e2e_.observe(request.e2e_s);
  if (ttft_s) ttft_.observe(*ttft_s);
  GroupWindow& window = slot_at(now);
  ++window.num_requests;
  if (request.finished_reason == "error") ++window.num_errors;
  if (request.finished_reason == "abort") ++window.num_aborted;
  window.prompt_tokens += request.num_prompt_tokens();
  window.generation_tokens += request.usage.completion_tokens;
  // Who leaves early makes means small: groups are compared by what was answered.
  if (!request.is_complete()) return;
  window.e2e.observe(request.e2e_s);
  if (ttft_s) window.ttft.observe(*ttft_s);
  if (const auto tpot_s = request.tpot_s()) window.tpot.observe(*tpot_s);
}

GroupWindow GroupMetrics::window(double now) const {
  const int64_t newest = slot_number(now);
  const int64_t oldest = std::max<int64_t>(0, newest - static_cast<int64_t>(kNumSlots) + 1);
  GroupWindow window;
  window.seconds = now - start_ - static_cast<double>(oldest) * slot_s_;
  for (const Slot& slot : slots_) {
    if (slot.number >= oldest) window.add(slot.window);
  }
  return window;
}

void write_group_metrics(std::string& out, std::span<const GroupMetrics> groups,
                         std::span<const std::string> labels) {
  const auto counter = [&](std::string_view name, std::string_view help, auto member) {
    write_metric_head(out, name, "counter", help);
    for (size_t i = 0; i < groups.size(); ++i) {
      write_sample(out, name, labels[i], static_cast<double>(groups[i].*member));
    }
  };
  const auto histogram = [&](std::string_view name, std::string_view help, auto member) {
    write_metric_head(out, name, "histogram", help);
    for (size_t i = 0; i < groups.size(); ++i) (groups[i].*member).write(out, name, labels[i]);
  };
  counter("octavo:prompt_tokens_total", "Prompt tokens of a group's requests that have ended.",
          &GroupMetrics::prompt_tokens_);
  counter("octavo:generation_tokens_total", "Generated tokens of such requests.",
          &GroupMetrics::generation_tokens_);
  write_metric_head(out, "octavo:request_success_total", "counter",
                    "Requests of a group that have ended.");
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const auto& [reason, count] : groups[i].finished_) {
      write_sample(out, "octavo:request_success_total",
                   format("{},finished_reason=\"{}\"", labels[i], reason),
                   static_cast<double>(count));
    }
  }
  histogram("octavo:time_to_first_token_seconds", "From arrival to the first token, by group.",
            &GroupMetrics::ttft_);
  histogram("octavo:inter_token_latency_seconds", "Between two tokens of an answer, by group.",
            &GroupMetrics::itl_);
  histogram("octavo:e2e_request_latency_seconds", "From arrival to the end, by group.",
            &GroupMetrics::e2e_);
}

}  // namespace octavo::server
