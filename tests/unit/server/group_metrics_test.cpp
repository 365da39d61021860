// What is measured of a group, against plain sums over all values.
#include "server/group_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/percentile.h"
#include "base/rng.h"
#include "server/serving_metrics.h"

namespace octavo::server {
namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value - mean_of(values), 2);
  return sum / static_cast<double>(values.size() - 1);
}

FinishedRequest request_of(double e2e_s, const std::string& reason = "stop") {
  FinishedRequest request;
  request.e2e_s = e2e_s;
  request.metrics = {.queued_s = e2e_s / 8, .prefill_s = e2e_s / 8, .decode_s = e2e_s / 2};
  request.usage = {.prompt_tokens = 3, .completion_tokens = 5, .cached_tokens = 0};
  request.max_num_generation_tokens = 5;
  request.has_first_token = true;
  request.finished_reason = reason;
  return request;
}

TEST(Distribution, IsCloseToTheSortedValues) {
  Rng rng(7);
  Distribution distribution, first_half, second_half;
  std::vector<double> values;
  for (int i = 0; i < 4000; ++i) {
    values.push_back(std::exp(6 * rng.next_double() - 5));
    distribution.observe(values.back());
    (i % 2 == 0 ? first_half : second_half).observe(values.back());
  }
  first_half.add(second_half);
  for (const Distribution* one : {&distribution, &first_half}) {
    EXPECT_EQ(one->count(), 4000);
    EXPECT_NEAR(one->mean(), mean_of(values), 1e-9);
    EXPECT_NEAR(one->variance(), variance_of(values), 1e-9);
    for (const double percent : {0.1, 10.0, 50.0, 90.0, 99.0, 100.0}) {
      EXPECT_NEAR(one->percentile(percent) / percentile(values, percent), 1, 0.05) << percent;
    }
  }
}

// Where nearly all of a bucket's values lie at its lower bound, and the rank at its upper one.
TEST(Distribution, IsCloseWithinABucketToo) {
  for (const double v :
       {1e-5 * std::exp2(80 / 8.0) * 1.0001, 1e-5 * std::exp2(163 / 16.0) * 1.0001}) {
    Distribution distribution;
    distribution.observe(v, 999);
    distribution.observe(10 * v);
    EXPECT_NEAR(distribution.percentile(99) / v, 1, 0.05);
  }
}

TEST(Distribution, HoldsAnyValue) {
  Distribution distribution;
  EXPECT_EQ(distribution.percentile(50), 0);
  EXPECT_EQ(distribution.mean(), 0);
  for (const double value : {0.0, -1.0, 1e-30, 1e30}) distribution.observe(value);
  EXPECT_EQ(distribution.count(), 4);
  EXPECT_EQ(distribution.percentile(100), 1e30);
  Distribution one;
  one.observe(0.123, 5);
  EXPECT_EQ(one.percentile(1), 0.123);
  EXPECT_EQ(one.percentile(99), 0.123);
}

// Of 95 % intervals, 95 % hold the truth.
TEST(Distribution, IntervalsHoldTheTruthAsOftenAsTheySay) {
  Rng rng(11);
  constexpr int kNumTrials = 2000;
  int held = 0;
  for (int trial = 0; trial < kNumTrials; ++trial) {
    Distribution a, b;
    for (int i = 0; i < 60; ++i) a.observe(rng.next_double());
    for (int i = 0; i < 90; ++i) b.observe(0.3 + 2 * rng.next_double());
    const Interval interval = difference_of_means(a, b);
    if (interval.low <= 0.8 && 0.8 <= interval.high) ++held;
  }
  EXPECT_NEAR(held / static_cast<double>(kNumTrials), 0.95, 0.02);
}

TEST(GroupMetrics, TheWindowForgets) {
  GroupMetrics metrics(60, 1000);
  metrics.observe_finished(1001, request_of(8));
  metrics.observe_finished(1050, request_of(4, "length"));
  metrics.observe_inter_token_latency(1050, 0.5, 4);
  GroupWindow window = metrics.window(1050);
  EXPECT_EQ(window.num_requests, 2);
  EXPECT_EQ(window.generation_tokens, 10);
  EXPECT_NEAR(window.seconds, 50, 1e-9);
  EXPECT_NEAR(window.ttft.mean(), 1.5, 1e-12);
  EXPECT_NEAR(window.tpot.mean(), 0.75, 1e-12);
  EXPECT_EQ(window.itl.count(), 4);
  window = metrics.window(1065);
  EXPECT_EQ(window.num_requests, 1);
  EXPECT_GT(window.seconds, 57.9);
  EXPECT_LE(window.seconds, 60);
  EXPECT_EQ(metrics.window(1115).num_requests, 0);
  metrics.observe_finished(1e6, request_of(2));
  EXPECT_EQ(metrics.window(1e6).num_requests, 1);
}

// An hour's answer that its client left after a second is not one of a second.
TEST(GroupMetrics, TheWindowComparesWhatWasAnswered) {
  GroupMetrics metrics(60, 1000);
  metrics.observe_finished(1001, request_of(8));
  for (const char* reason : {"abort", "error", "error"}) {
    metrics.observe_finished(1002, request_of(800, reason));
  }
  const GroupWindow window = metrics.window(1003);
  EXPECT_EQ(window.num_requests, 4);
  EXPECT_EQ(window.num_aborted, 1);
  EXPECT_EQ(window.num_errors, 2);
  EXPECT_EQ(window.prompt_tokens, 12);
  EXPECT_EQ(window.generation_tokens, 20);
  for (const Distribution* one : {&window.ttft, &window.tpot, &window.e2e}) {
    EXPECT_EQ(one->count(), 1);
  }
  EXPECT_NEAR(window.ttft.mean(), 2, 1e-12);
  EXPECT_NEAR(window.tpot.mean(), 1, 1e-12);
  EXPECT_EQ(window.e2e.mean(), 8);
}

// The sum over the samples of `name`, which may have labels that contain `label`.
double sum_of(const std::string& text, const std::string& name, const std::string& label = "") {
  double sum = 0;
  for (size_t at = text.find("\n" + name + "{"); at != std::string::npos;
       at = text.find("\n" + name + "{", at + 1)) {
    const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    if (line.find(label) != std::string::npos) sum += std::stod(line.substr(line.rfind(' ')));
  }
  return sum;
}

TEST(ServingMetrics, GroupsAddUpToTheWhole) {
  GroupsConfig config;
  config.groups = {{"a", 3, {}}, {"b", 1, {}}, {"empty", 1, {}}};
  const Groups groups(config);
  ServingMetrics metrics("m", 1000, false, groups);
  Rng rng(3);
  double tokens = 0;
  for (int i = 0; i < 500; ++i) {
    const size_t group = i % 3 == 0 ? 1 : 0;
    const char* reasons[] = {"stop", "length", "abort", "error"};
    metrics.observe_finished(group, request_of(20 * rng.next_double(), reasons[i % 4]));
    metrics.observe_inter_token_latency(group, rng.next_double(), 1 + i % 3);
    tokens += 5;
  }
  const std::string text = metrics.text({}, {});
  for (const char* name : {"time_to_first_token_seconds", "inter_token_latency_seconds",
                           "e2e_request_latency_seconds"}) {
    for (const char* part : {"_bucket", "_sum", "_count"}) {
      const std::string whole = std::string("vllm:") + name + part;
      const std::string of_groups = std::string("octavo:") + name + part;
      EXPECT_GT(sum_of(text, whole), 0) << whole;
      EXPECT_NEAR(sum_of(text, of_groups), sum_of(text, whole), 1e-6) << of_groups;
    }
  }
  for (const char* reason : {"\"stop\"", "\"length\"", "\"abort\"", "\"error\""}) {
    EXPECT_EQ(sum_of(text, "vllm:request_success_total", reason), 125);
    EXPECT_EQ(sum_of(text, "octavo:request_success_total", reason), 125);
  }
  EXPECT_EQ(sum_of(text, "octavo:generation_tokens_total"), tokens);
  EXPECT_EQ(sum_of(text, "octavo:e2e_request_latency_seconds_count", "group=\"b\""), 167);
  EXPECT_EQ(sum_of(text, "octavo:e2e_request_latency_seconds_count", "group=\"empty\""), 0);
  EXPECT_EQ(sum_of(text, "octavo:group_weight", "group=\"a\""), 3);
  EXPECT_EQ(metrics.windows().at(0).num_requests, 333);
}

TEST(ServingMetrics, PromptsThatNeverRanDoNotCount) {
  GroupsConfig config;
  config.groups = {{"a", 1, {}}};
  const Groups groups(config);
  ServingMetrics metrics("m", 1000, false, groups);
  FinishedRequest queued;  // until its client left
  queued.e2e_s = 3;
  queued.usage.prompt_tokens = 100;
  queued.finished_reason = "abort";
  metrics.observe_finished(0, queued);
  FinishedRequest started = queued;  // has left the queue, has no token yet
  started.metrics.queued_s = 2;
  started.usage.prompt_tokens = 10;
  metrics.observe_finished(0, started);
  metrics.observe_finished(0, request_of(1));
  EXPECT_EQ(sum_of(metrics.text({}, {}), "octavo:prompt_tokens_total"), 13);
  EXPECT_EQ(metrics.windows().at(0).prompt_tokens, 13);
  EXPECT_EQ(metrics.windows().at(0).num_aborted, 2);
}

TEST(ServingMetrics, WithoutGroupsThereAreNoLabels) {
  const Groups groups({});
  ServingMetrics metrics("m", 1000, false, groups);
  metrics.observe_finished(0, request_of(1));
  EXPECT_EQ(metrics.text({}, {}).find("octavo:"), std::string::npos);
  EXPECT_EQ(metrics.windows().size(), 1U);
}

}  // namespace
}  // namespace octavo::server
