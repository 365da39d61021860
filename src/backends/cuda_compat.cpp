#include "backends/cuda_compat.h"

#include <algorithm>

#include "base/format.h"

namespace octavo::backends {
namespace {

constexpr int kCublasltMajor = 13;  // whose interface octavo is built for

struct Issue {
  int first, last;  // versions
  bool (*concerns)(const MatmulShape&);
  void (*restrict)(CublasltPolicy&);
  const char* what;
};

// Split-K tiles are at most this many values of k.
constexpr int64_t kLargestSplitTile = 256;

int64_t largest_matrix(const MatmulShape& s) {
  return std::max({s.num_tokens * s.in_features, s.out_features * s.in_features,
                   s.num_tokens * s.out_features});
}

// Versions are those that the issue was seen in, to the latest where no fix is known.
constexpr Issue kIssues[] = {
    // facebookexperimental/triton#2767: seen on H100, in 12.8.5 and 13.1.1, for few shapes each
    {130000, 139999, [](const MatmulShape& s) { return s.in_features % kLargestSplitTile != 0; },
     [](CublasltPolicy& p) { p.split_k = false; },
     "split-K may leave out the last values of k where they fill no tile: not used there"},
    // NVIDIA/raft#3097
    {130600, 130600, [](const MatmulShape& s) { return largest_matrix(s) >= int64_t{1} << 31; },
     [](CublasltPolicy& p) { p.usable = false; },
     "products with a matrix of 2^31 values or more may fail: not used for them"},
};

bool is_of(const Issue& issue, int version) {
  return version >= issue.first && version <= issue.last;
}

std::string wrong_major(int version) {
  if (version / 10000 == kCublasltMajor) return "";
  return format("cuBLASLt {} is not one of {}.x, which octavo is built for",
                cublaslt_version_string(version), kCublasltMajor);
}

}  // namespace

std::string cuda_version_string(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string cublaslt_version_string(int version) {
  return format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string driver_problem(int driver, int runtime) {
  if (driver / 1000 >= runtime / 1000) return "";
  return format("too old for CUDA {}, which octavo is built with: update the driver",
                cuda_version_string(runtime));
}

CublasltPolicy cublaslt_policy(int version, const MatmulShape& shape) {
  CublasltPolicy policy;
  policy.reason = wrong_major(version);
  policy.usable = policy.reason.empty();
  for (const Issue& issue : kIssues) {
    if (!is_of(issue, version) || !issue.concerns(shape)) continue;
    issue.restrict(policy);
    policy.reason += format("{}{}", policy.reason.empty() ? "" : "; ", issue.what);
  }
  return policy;
}

std::vector<std::string> cublaslt_issues(int version) {
  std::vector<std::string> issues;
  if (std::string wrong = wrong_major(version); !wrong.empty()) issues.push_back(std::move(wrong));
  for (const Issue& issue : kIssues) {
    if (is_of(issue, version)) issues.emplace_back(issue.what);
  }
  return issues;
}

}  // namespace octavo::backends
