// GET /ab: what the groups took of late, and how far each is from the first.
#include "server/app.h"
#include "server/openai/error.h"
#include "server/openai/handlers.h"

namespace octavo::server {
namespace {

// Fewer requests on either side say nothing of a difference.
constexpr int64_t kFewestRequests = 30;

JsonObject describe(const Distribution& seconds) {
  return {{"count", seconds.count()},
          {"mean", seconds.mean()},
          {"p50", seconds.percentile(50)},
          {"p90", seconds.percentile(90)},
          {"p99", seconds.percentile(99)}};
}

Json difference(const Distribution& first, const Distribution& other) {
  if (first.count() < kFewestRequests || other.count() < kFewestRequests) return nullptr;
  const Interval interval = difference_of_means(first, other);
  return JsonObject{{"mean", interval.mean}, {"low", interval.low}, {"high", interval.high}};
}

double per_second(int64_t count, const GroupWindow& window) {
  return window.seconds > 0 ? static_cast<double>(count) / window.seconds : 0;
}

JsonObject describe_group(const std::string& name, double weight, const GroupWindow& window) {
  return {{"name", name},
          {"weight", weight},
          {"requests", window.num_requests},
          {"errors", window.num_errors},
          {"aborted", window.num_aborted},
          {"requests_per_s", per_second(window.num_requests, window)},
          {"prompt_tokens_per_s", per_second(window.prompt_tokens, window)},
          {"generation_tokens_per_s", per_second(window.generation_tokens, window)},
          {"ttft_s", describe(window.ttft)},
          {"itl_s", describe(window.itl)},
          {"tpot_s", describe(window.tpot)},
          {"latency_s", describe(window.e2e)}};
}

}  // namespace

void handle_groups(App& app, const std::shared_ptr<Exchange>& exchange) {
  const Groups& groups = app.groups();
  const std::vector<GroupWindow> windows = app.metrics().windows();
  const std::vector<double> weights = groups.weights();
  JsonArray list;
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string name = groups.any() ? groups.name(i) : "all";
    JsonObject group = describe_group(name, weights[i], windows[i]);
    if (i > 0) {
      group["difference"] = JsonObject{{"ttft_s", difference(windows[0].ttft, windows[i].ttft)},
                                       {"tpot_s", difference(windows[0].tpot, windows[i].tpot)},
                                       {"latency_s", difference(windows[0].e2e, windows[i].e2e)}};
    }
    list.push_back(std::move(group));
  }
  exchange->send(json_response(
      200, JsonObject{{"window_s", windows[0].seconds},
                      {"confidence", 0.95},
                      {"method", "difference of means to the first group, normal approximation"},
                      {"groups", std::move(list)}}));
}

}  // namespace octavo::server
