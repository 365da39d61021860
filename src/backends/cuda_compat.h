// Which versions of NVIDIA's software go together, and what is known to be wrong with some: pure
// decisions over version numbers, tested without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::backends {

// 13010 is 13.1
std::string cuda_version_string(int version);
// 130100 is 13.1.0
std::string cublaslt_version_string(int version);

// Empty where a driver that supports CUDA `driver` can run what is built with CUDA `runtime`, else
// what to do. Drivers run every minor version of their major one.
std::string driver_problem(int driver, int runtime);

// A product out[num_tokens, out_features] = x[num_tokens, in_features] · wᵀ.
struct MatmulShape {
  int64_t num_tokens = 0;
  int64_t out_features = 0;
  int64_t in_features = 0;
};

// How cuBLASLt may be used for a product.
struct CublasltPolicy {
  bool usable = true;
  bool split_k = true;  // algorithms that cut in_features into parts and add these up
  std::string reason;   // of what is not allowed
};
CublasltPolicy cublaslt_policy(int version, const MatmulShape& shape);

// The known issues of a version, one sentence each.
std::vector<std::string> cublaslt_issues(int version);

}  // namespace octavo::backends
