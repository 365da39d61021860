#include "backends/cuda_compat.h"

#include <gtest/gtest.h>

namespace octavo::backends {
namespace {

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(CudaCompat, VersionsAsPeopleWriteThem) {
  EXPECT_EQ(cuda_version_string(13000), "13.0");
  EXPECT_EQ(cuda_version_string(12090), "12.9");
  EXPECT_EQ(cublaslt_version_string(130100), "13.1.0");
  EXPECT_EQ(cublaslt_version_string(130213), "13.2.13");
}

TEST(CudaCompat, ADriverRunsItsMajorVersion) {
  EXPECT_EQ(driver_problem(13000, 13000), "");
  EXPECT_EQ(driver_problem(13000, 13020), "");  // minor version compatibility
  EXPECT_EQ(driver_problem(14000, 13000), "");
  const std::string problem = driver_problem(12090, 13000);
  EXPECT_TRUE(says(problem, "13.0") && says(problem, "update the driver")) << problem;
}

TEST(CudaCompat, SplitKOnlyWhereItAddsUpEverything) {
  for (const int version : {130000, 130100, 130600, 131200}) {
    EXPECT_TRUE(cublaslt_policy(version, {16, 4096, 4096}).split_k);
    const CublasltPolicy ragged = cublaslt_policy(version, {16, 4096, 4096 + 64});
    EXPECT_FALSE(ragged.split_k);
    EXPECT_TRUE(ragged.usable);
    EXPECT_TRUE(says(ragged.reason, "split-K")) << ragged.reason;
  }
}

TEST(CudaCompat, LargeMatricesTakeAnotherPathInOneVersion) {
  constexpr int64_t kVocab = 262144;
  EXPECT_TRUE(cublaslt_policy(130600, {16, kVocab, 8192 - 256}).usable);
  for (const MatmulShape& shape :
       {MatmulShape{16, kVocab, 8192}, {kVocab, 16, 8192}, {1 << 16, 1 << 15, 256}}) {
    EXPECT_FALSE(cublaslt_policy(130600, shape).usable);
    EXPECT_TRUE(cublaslt_policy(130500, shape).usable);
    EXPECT_TRUE(cublaslt_policy(130601, shape).usable);
  }
}

TEST(CudaCompat, AnotherMajorVersionIsNotUsed) {
  for (const int version : {0, 120900, 140000}) {
    const CublasltPolicy policy = cublaslt_policy(version, {1, 256, 256});
    EXPECT_FALSE(policy.usable);
    EXPECT_TRUE(says(policy.reason, cublaslt_version_string(version))) << policy.reason;
    EXPECT_EQ(cublaslt_issues(version).size(), 1u);
  }
  EXPECT_TRUE(cublaslt_policy(130100, {1, 256, 256}).reason.empty());
  EXPECT_EQ(cublaslt_issues(130100).size(), 1u);
  EXPECT_EQ(cublaslt_issues(130600).size(), 2u);
}

}  // namespace
}  // namespace octavo::backends
