// Matrix products by cuBLASLt. Which of its algorithms is fastest is measured, once for each
// product and power of two of tokens, and kept in a file (backends/matmul_cache.h).
//
// Not batch-invariant: another number of tokens may mean another algorithm, hence another order of
// the sum over in_features.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/device_cuda.h"
#include "backends/matmul_cache.h"
#include "octavo/status.h"
#include "tensor/dtype.h"

namespace octavo::backends::cuda {

// out = x · wᵀ (+ bias), sums in float32. All pointers are device memory, aligned to 16 bytes
// (scales to 4).
struct MatmulArgs {
  void* out = nullptr;             // [num_tokens, out_features]
  const void* x = nullptr;         // [num_tokens, in_features]
  const void* w = nullptr;         // [out_features, in_features]
  const void* bias = nullptr;      // [out_features], of out's dtype; or null
  DType out_dtype = DType::kBF16;  // or kF32
  bool accumulate = false;         // adds to what out holds
  int64_t out_stride = 0;      // values from one row to the next, rows being aligned to 16 bytes;
  int64_t x_stride = 0;        // 0: no gaps
  DType dtype = DType::kBF16;  // of x and w; or kF8E4M3, from sm_89 on
  int64_t num_tokens = 0;
  int64_t out_features = 0;  // a multiple of 8, of E4M3 16
  int64_t in_features = 0;   // a multiple of 8, of E4M3 16

  // Of E4M3: what stored values are multiplied by.
  const float* x_scale = nullptr;  // one, or [num_tokens]
  const float* w_scale = nullptr;  // one, or [out_features]
  bool scale_rows = false;         // a scale for each row of x and of w; only sm_90
};

class Matmul {
 public:
  // Errors: no cuBLASLt, or one that octavo cannot use. `cache_folder`: octavo_home(), or "" to
  // keep nothing from run to run. Belongs to one stream at a time, as its workspace does.
  static Result<std::unique_ptr<Matmul>> create(CudaDevice& device,
                                                const std::string& cache_folder);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Measures first where the product is new, which takes some milliseconds and waits for the
  // stream; while the stream is captured it takes what cuBLASLt thinks best. A product that
  // cuBLASLt has no algorithm for, or is known to get wrong, is kUnsupported.
  Status run(const MatmulArgs& args, cudaStream_t stream);

  // Whether `args` lies as cuBLASLt needs it: multiples of 8 (16) features, rows aligned.
  static bool fits(const MatmulArgs& args);

  // The same with cuBLASLt's own choice, to compare.
  Status run_unmeasured(const MatmulArgs& args, cudaStream_t stream);

  int num_measured() const { return num_measured_; }

 private:
  struct Problem;  // a product as cuBLASLt describes it

  Matmul(CudaDevice& device, const Cublaslt& lt, MatmulCache cache)
      : device_(device), lt_(lt), cache_(std::move(cache)) {}

  Status check(cublasStatus_t status, const char* call) const;
  Status check_support(const MatmulArgs& args) const;
  Result<std::vector<cublasLtMatmulAlgo_t>> candidates(const Problem& problem) const;
  Result<cublasLtMatmulAlgo_t> choose(const Problem& problem, cudaStream_t stream);
  Result<cublasLtMatmulAlgo_t> measure(const Problem& problem, cudaStream_t stream);
  Result<double> time_us(const Problem& problem, const cublasLtMatmulAlgo_t& algorithm,
                         const Buffer& flush, cudaStream_t stream) const;
  Status launch(const Problem& problem, const cublasLtMatmulAlgo_t& algorithm,
                cudaStream_t stream) const;

  CudaDevice& device_;
  const Cublaslt& lt_;
  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
  std::mutex mutex_;
  MatmulCache cache_;
  std::map<std::string, cublasLtMatmulAlgo_t> chosen_;  // by product and number of tokens
  int num_measured_ = 0;
};

}  // namespace octavo::backends::cuda
