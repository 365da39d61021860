// `octavo bench kernels`: that its figures fit together and to the shape in the name, that the
// forced kernels are those that run, and flags that are wrong.
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/run_octavo.h"

namespace octavo {
namespace {

using testing::expect_failure;
using testing::octavo;
using testing::Outcome;

Json measure(const std::string& filter, const std::string& prefix = "") {
  const Outcome run =
      octavo("bench kernels --json --threads 2 --filter '" + filter + "'", "", prefix);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  auto json = parse_json(run.out, "figures");
  EXPECT_TRUE(json.ok()) << run.out;
  return json.ok() ? std::move(*json) : Json(JsonObject{{"results", JsonArray{}}});
}

const JsonArray& results(const Json& figures) {
  return *json_array(figures, "results", "figures").value();
}

double number(const Json& object, const char* key) {
  return json_double(object, key, "figures").value();
}

std::string text(const Json& object, const char* key) {
  return std::string(to_view(object.as_object().at(key).as_string()));
}

// 576 x 1536 values in blocks of 32 of 18 bytes, times four rows.
TEST(BenchKernels, FiguresFitTogether) {
  const Json figures = measure("^linear q4_0 576x1536 rows=4$");
  ASSERT_EQ(results(figures).size(), 1U);
  const Json& one = results(figures)[0];
  EXPECT_EQ(text(one, "name"), "linear q4_0 576x1536 rows=4");
  const double us = number(one, "us");
  ASSERT_GT(us, 0);
  EXPECT_NEAR(number(one, "gb_per_s") * us * 1e3, 576 * 1536 / 32 * 18, 1);
  EXPECT_NEAR(number(one, "gop_per_s") * us * 1e3, 2.0 * 4 * 576 * 1536, 1);
  const double bandwidth = number(figures, "memory_read_gb_per_s");
  EXPECT_NEAR(number(one, "share_of_bandwidth") * bandwidth, number(one, "gb_per_s"), 1e-6);
  const Json& peaks = figures.as_object().at("peak_gop_per_s");
  ASSERT_EQ(peaks.as_object().size(), 1U);
  const double peak = number(peaks, text(one, "peak").c_str());
  EXPECT_NEAR(number(one, "share_of_peak") * peak, number(one, "gop_per_s"), 1e-6);
}

// 64 * 9 values twice for each visible key: 512 for one row, 1 to 512 for as many.
TEST(BenchKernels, AttentionCountsWhatRowsSee) {
  const Json figures = measure("^attention int8 heads=9/3x64 context=512 rows=(1|512)$");
  ASSERT_EQ(results(figures).size(), 2U);
  const double keys[] = {512, 512 * 513 / 2};
  for (int i = 0; i < 2; ++i) {
    const Json& one = results(figures)[i];
    const double us = number(one, "us");
    EXPECT_NEAR(number(one, "gop_per_s") * us * 1e3, 2 * 2 * 64 * 9 * keys[i], 10);
    EXPECT_NEAR(number(one, "gb_per_s") * us * 1e3, 2.0 * 512 * 3 * (64 + 4), 1);
  }
}

TEST(BenchKernels, ForcedKernelsRun) {
  const Json figures =
      measure("(linear q8_0|attention bfloat16|add) .*576.* rows=1$|context=512 rows=1$",
              "OCTAVO_KERNELS=generic");
  EXPECT_EQ(text(figures, "kernels"), "generic");
  EXPECT_GE(results(figures).size(), 5U);
  for (const Json& one : results(figures)) {
    const std::string kernel = text(one, "kernel");
    const std::string suffix = "_generic";
    ASSERT_GT(kernel.size(), suffix.size());
    EXPECT_EQ(kernel.substr(kernel.size() - suffix.size()), suffix);
    EXPECT_GT(number(one, "us"), 0);
  }
}

// Each weight type, op and type of cache once, as a reader sees it.
TEST(BenchKernels, EveryKindRuns) {
  const Outcome run = octavo(
      "bench kernels --filter 'linear .* 576x1536 rows=2$|9/3x64 context=512 rows=8$|^\\w+ 576 "
      "rows=1$|activation_mul 1536 rows=8'");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out.rfind("cpu (", 0), 0U) << run.out;
  for (const char* part :
       {"memory read ", "kernel ", "\nlinear float32 ", "\nlinear bfloat16 ", "\nlinear q4_1 ",
        "\nlinear q6_k ", "\nlinear iq4_nl ", "\nlinear mxfp4 ", "\nattention bfloat16 ",
        "\nattention float16 ", "\nattention int8 ", "\nrms_norm ", "\nrope ", "\nactivation_mul ",
        "\nadd "}) {
    EXPECT_NE(run.out.find(part), std::string::npos) << part << " in\n" << run.out;
  }
  EXPECT_EQ(run.out.find("nan"), std::string::npos) << run.out;
}

TEST(BenchKernels, WrongFlagsAreNamed) {
  expect_failure(octavo("bench kernels --filter '('"), 2, "--filter");
  expect_failure(octavo("bench kernels --filter none_such"), 1, "--filter");
  expect_failure(octavo("bench kernels --threads 5000"), 2, "--threads");
  expect_failure(octavo("bench kernels", "", "OCTAVO_KERNELS=sse9"), 1, "OCTAVO_KERNELS");
  expect_failure(octavo("bench kernel model"), 2, "kernels");
}

}  // namespace
}  // namespace octavo
