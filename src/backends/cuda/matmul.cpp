#include "backends/cuda/matmul.h"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "backends/cuda/device_error.h"
#include "backends/cuda_compat.h"
#include "base/check.h"
#include "base/format.h"
#include "base/log.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kCandidates = 16;
constexpr int kTimedRuns = 7;
constexpr int64_t kWorkspaceBytes = 64 << 20;
constexpr uint32_t kAlignment = 16;  // bytes, of all matrices

std::string product_name(const MatmulArgs& args, int64_t num_tokens) {
  return format("{} {} x {} x {}{}{}{}{}", dtype_traits(args.dtype).name, num_tokens,
                args.out_features, args.in_features, args.bias != nullptr ? " bias" : "",
                args.scale_rows ? " rows" : "", args.out_dtype == DType::kF32 ? " to float32" : "",
                args.accumulate ? " added" : "");
}

// One measurement serves all numbers of tokens up to the next power of two.
std::string bucket_name(const MatmulArgs& args) {
  const auto num_tokens = static_cast<uint64_t>(args.num_tokens);
  return product_name(args, static_cast<int64_t>(std::bit_ceil(num_tokens)));
}

cublasLtMatmulAlgo_t from_code(const MatmulAlgorithm& known) {
  cublasLtMatmulAlgo_t algorithm;
  std::copy(known.code.begin(), known.code.end(), std::begin(algorithm.data));
  return algorithm;
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0;
}

int64_t out_stride(const MatmulArgs& args) {
  return args.out_stride == 0 ? args.out_features : args.out_stride;
}

int64_t x_stride(const MatmulArgs& args) {
  return args.x_stride == 0 ? args.in_features : args.x_stride;
}

}  // namespace

// cuBLASLt's matrices are column-major: what is [rows, columns] here is its transpose there. So w
// is its A, x its B, and a row of features is a column of D.
struct Matmul::Problem {
  const Cublaslt& lt;
  const MatmulArgs& args;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, out = nullptr;

  Problem(const Cublaslt& library, const MatmulArgs& of) : lt(library), args(of) {}
  ~Problem() {
    if (desc != nullptr) lt.desc_destroy(desc);
    for (cublasLtMatrixLayout_t layout : {w, x, out}) {
      if (layout != nullptr) lt.layout_destroy(layout);
    }
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  template <typename T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return lt.desc_set(desc, attribute, &value, sizeof(value));
  }

  // The first failure, or success.
  cublasStatus_t describe() {
    const cudaDataType_t type = args.dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_8F_E4M3;
    const auto m = static_cast<uint64_t>(args.out_features);
    const auto n = static_cast<uint64_t>(args.num_tokens);
    const auto k = static_cast<uint64_t>(args.in_features);
    const auto first = [](std::initializer_list<cublasStatus_t> all) {
      for (const cublasStatus_t status : all) {
        if (status != CUBLAS_STATUS_SUCCESS) return status;
      }
      return CUBLAS_STATUS_SUCCESS;
    };
    const cudaDataType_t out_type = args.out_dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
    cublasStatus_t status = first({lt.desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                                   lt.layout_create(&w, type, k, m, args.in_features),
                                   lt.layout_create(&x, type, k, n, x_stride(args)),
                                   lt.layout_create(&out, out_type, m, n, out_stride(args))});
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    status = first({set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T),
                    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N)});
    if (status == CUBLAS_STATUS_SUCCESS && args.bias != nullptr) {
      status = first({set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS),
                      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias),
                      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out_type)});
    }
    if (status != CUBLAS_STATUS_SUCCESS || args.dtype == DType::kBF16) return status;
    status = first({set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, args.w_scale),
                    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, args.x_scale)});
    if (status != CUBLAS_STATUS_SUCCESS || !args.scale_rows) return status;
    constexpr cublasLtMatmulMatrixScale_t kRows = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    return first({set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, kRows),
                  set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, kRows)});
  }
};

Result<std::unique_ptr<Matmul>> Matmul::create(CudaDevice& device,
                                               const std::string& cache_folder) {
  const Result<Cublaslt>& lt = cublaslt();
  if (!lt.ok()) return lt.status();
  const CublasltPolicy policy = cublaslt_policy(lt->version, {});
  if (!policy.usable) return unsupported(format("{}: {}", lt->path, policy.reason));
  MatmulMachine machine;
  machine.gpu = device.properties().name;
  machine.library = lt->version;
  check_cuda(cudaDriverGetVersion(&machine.driver), "cudaDriverGetVersion");
  MatmulCache cache(matmul_cache_path(cache_folder, machine), machine);
  std::unique_ptr<Matmul> matmul(new Matmul(device, *lt, std::move(cache)));
  matmul->workspace_ = OCTAVO_TRY(device.allocate(kWorkspaceBytes, "workspace of cuBLASLt"));
  const DeviceScope scope(device.index());
  OCTAVO_TRY(matmul->check(lt->create(&matmul->handle_), "cublasLtCreate"));
  return matmul;
}

Matmul::~Matmul() {
  if (handle_ != nullptr) lt_.destroy(handle_);
}

Status Matmul::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return internal_error(format("{}: {}", call, lt_.status_string(status)));
}

bool Matmul::fits(const MatmulArgs& args) {
  const int64_t unit = args.dtype == DType::kF8E4M3 ? 16 : 8;
  const int64_t out_unit = args.out_dtype == DType::kF32 ? 4 : 8;
  return args.out_features % unit == 0 && args.in_features % unit == 0 &&
         out_stride(args) % out_unit == 0 && out_stride(args) >= args.out_features &&
         x_stride(args) % unit == 0 && x_stride(args) >= args.in_features && is_aligned(args.out) &&
         is_aligned(args.x) && is_aligned(args.w) && is_aligned(args.bias);
}

Status Matmul::check_support(const MatmulArgs& args) const {
  const bool fp8 = args.dtype == DType::kF8E4M3;
  const std::string name = product_name(args, args.num_tokens);
  if (!fp8 && args.dtype != DType::kBF16) {
    return unsupported(format("matmul {}: bfloat16 or float8_e4m3 only", name));
  }
  if (args.out_dtype != DType::kBF16 && args.out_dtype != DType::kF32) {
    return unsupported(
        format("matmul {}: a result of {}", name, dtype_traits(args.out_dtype).name));
  }
  const int sm = device_.properties().compute_capability;
  if (fp8 && (sm < 89 || (args.scale_rows && sm != 90))) {
    return unsupported(format("matmul {}: not on sm_{}", name, sm));
  }
  if (fp8 && (args.x_scale == nullptr || args.w_scale == nullptr)) {
    return invalid_argument(format("matmul {}: no x_scale or w_scale", name));
  }
  const int64_t unit = fp8 ? 16 : 8;
  if (args.num_tokens < 0 || args.out_features < 1 || args.in_features < 1 ||
      args.out_features % unit != 0 || args.in_features % unit != 0) {
    return unsupported(
        format("matmul {}: features must be positive multiples of {}, num_tokens not below 0", name,
               unit));
  }
  if (!fits(args)) {
    return invalid_argument(format("matmul {}: a matrix is not aligned to 16 bytes", name));
  }
  const CublasltPolicy policy =
      cublaslt_policy(lt_.version, {args.num_tokens, args.out_features, args.in_features});
  if (!policy.usable) return unsupported(format("matmul {}: {}", name, policy.reason));
  return {};
}

// What cuBLASLt thinks fit, best first, without what is known to be wrong or too coarse.
Result<std::vector<cublasLtMatmulAlgo_t>> Matmul::candidates(const Problem& problem) const {
  cublasLtMatmulPreference_t preference = nullptr;
  OCTAVO_TRY(check(lt_.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, decltype(lt_.preference_destroy)> owner(
      preference, lt_.preference_destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return check(lt_.preference_set(preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  OCTAVO_TRY(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes}));
  const MatmulArgs& args = problem.args;
  const CublasltPolicy policy =
      cublaslt_policy(lt_.version, {args.num_tokens, args.out_features, args.in_features});
  // Parts of a sum are not rounded to bfloat16 before they are added up. Where there may be no
  // parts, cuBLASLt must know: of one row it otherwise offers nothing else.
  OCTAVO_TRY(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 uint32_t{policy.split_k ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                         : CUBLASLT_REDUCTION_SCHEME_NONE}));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    OCTAVO_TRY(set(attribute, kAlignment));
  }
  cublasLtMatmulHeuristicResult_t found[kCandidates] = {};
  int num_found = 0;
  const cublasStatus_t status =
      lt_.algo_get_heuristic(handle_, problem.desc, problem.w, problem.x, problem.out, problem.out,
                             preference, kCandidates, found, &num_found);
  if (status != CUBLAS_STATUS_SUCCESS) num_found = 0;
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const cublasLtMatmulHeuristicResult_t& result : std::span(found, num_found)) {
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    uint32_t parts = 1;
    size_t written = 0;
    OCTAVO_TRY(check(lt_.algo_config_get(&result.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts,
                                         sizeof(parts), &written),
                     "cublasLtMatmulAlgoConfigGetAttribute"));
    if (policy.split_k || parts <= 1) algorithms.push_back(result.algo);
  }
  if (!algorithms.empty()) return algorithms;
  return unsupported(format(
      "cuBLASLt {} has no algorithm for {}{}{}", cublaslt_version_string(lt_.version),
      product_name(args, args.num_tokens), policy.reason.empty() ? "" : ": ", policy.reason));
}

Status Matmul::launch(const Problem& problem, const cublasLtMatmulAlgo_t& algorithm,
                      cudaStream_t stream) const {
  const MatmulArgs& args = problem.args;
  constexpr float kOne = 1.0f;
  const float beta = args.accumulate ? 1.0f : 0.0f;
  return check(lt_.matmul(handle_, problem.desc, &kOne, args.w, problem.w, args.x, problem.x, &beta,
                          args.out, problem.out, args.out, problem.out, &algorithm,
                          workspace_.data.get(), static_cast<size_t>(kWorkspaceBytes), stream),
               "cublasLtMatmul");
}

// The median of runs that find nothing in L2, as in a model, where other weights come between.
Result<double> Matmul::time_us(const Problem& problem, const cublasLtMatmulAlgo_t& algorithm,
                               const Buffer& flush, cudaStream_t stream) const {
  std::vector<Event> begin, end;
  for (int i = 0; i < kTimedRuns; ++i) {
    begin.emplace_back(Event::Timing::kOn);
    end.emplace_back(Event::Timing::kOn);
  }
  OCTAVO_TRY(launch(problem, algorithm, stream));  // loads the kernel
  for (size_t i = 0; i < kTimedRuns; ++i) {
    check_cuda(cudaMemsetAsync(flush.data.get(), 0, static_cast<size_t>(flush.size_bytes), stream),
               "cudaMemsetAsync");
    begin[i].record(stream);
    OCTAVO_TRY(launch(problem, algorithm, stream));
    end[i].record(stream);
  }
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<double> times;
  for (size_t i = 0; i < kTimedRuns; ++i) times.push_back(Event::elapsed_us(begin[i], end[i]));
  std::nth_element(times.begin(), times.begin() + kTimedRuns / 2, times.end());
  return times[kTimedRuns / 2];
}

Result<cublasLtMatmulAlgo_t> Matmul::measure(const Problem& problem, cudaStream_t stream) {
  const std::vector<cublasLtMatmulAlgo_t> all = OCTAVO_TRY(candidates(problem));
  const Buffer flush = OCTAVO_TRY(
      device_.allocate(2 * device_.properties().l2_bytes, "memory to overwrite the L2 cache"));
  // What is added to must not change as often as it is measured.
  MatmulArgs trial_args = problem.args;
  const int64_t out_values = trial_args.num_tokens * out_stride(trial_args);
  const Buffer trial_out = OCTAVO_TRY(device_.allocate(
      dtype_bytes(trial_args.out_dtype, out_values), "memory to measure a product"));
  trial_args.out = trial_out.data.get();
  Problem trial(lt_, trial_args);
  OCTAVO_TRY(check(trial.describe(), "cublasLtMatmulDescSetAttribute"));
  MatmulAlgorithm best;
  Status failure;
  for (const cublasLtMatmulAlgo_t& algorithm : all) {
    const Result<double> us = time_us(trial, algorithm, flush, stream);
    if (!us.ok()) {  // cuBLASLt offers what it then refuses to run
      failure = us.status();
    } else if (best.us == 0 || *us < best.us) {
      best.us = *us;
      std::copy(std::begin(algorithm.data), std::end(algorithm.data), best.code.begin());
    }
  }
  if (best.us == 0) return failure;
  ++num_measured_;
  const std::string name = bucket_name(problem.args);
  log_debug("matmul {}: {:.1f} us, the fastest of {}", name, best.us, all.size());
  if (const Status kept = cache_.put(name, best); !kept.ok()) {
    log_warning("{}; the next start measures again", kept.message());
  }
  return from_code(best);
}

Result<cublasLtMatmulAlgo_t> Matmul::choose(const Problem& problem, cudaStream_t stream) {
  const std::string exact = product_name(problem.args, problem.args.num_tokens);
  if (const auto it = chosen_.find(exact); it != chosen_.end()) return it->second;
  if (const MatmulAlgorithm* known = cache_.find(bucket_name(problem.args))) {
    const cublasLtMatmulAlgo_t algorithm = from_code(*known);
    cublasLtMatmulHeuristicResult_t result = {};
    const cublasStatus_t status = lt_.algo_check(handle_, problem.desc, problem.w, problem.x,
                                                 problem.out, problem.out, &algorithm, &result);
    if (status == CUBLAS_STATUS_SUCCESS &&
        result.workspaceSize <= static_cast<size_t>(kWorkspaceBytes)) {
      return chosen_[exact] = algorithm;
    }
  }
  if (is_captured(stream)) {
    log_debug("matmul {}: not measured, the stream is being captured", exact);
    return OCTAVO_TRY(candidates(problem)).front();
  }
  return chosen_[exact] = OCTAVO_TRY(measure(problem, stream));
}

Status Matmul::run(const MatmulArgs& args, cudaStream_t stream) {
  OCTAVO_TRY(check_support(args));
  if (args.num_tokens == 0) return {};
  const std::lock_guard lock(mutex_);
  Problem problem(lt_, args);
  OCTAVO_TRY(check(problem.describe(), "cublasLtMatmulDescSetAttribute"));
  return launch(problem, OCTAVO_TRY(choose(problem, stream)), stream);
}

Status Matmul::run_unmeasured(const MatmulArgs& args, cudaStream_t stream) {
  OCTAVO_TRY(check_support(args));
  if (args.num_tokens == 0) return {};
  const std::lock_guard lock(mutex_);
  Problem problem(lt_, args);
  OCTAVO_TRY(check(problem.describe(), "cublasLtMatmulDescSetAttribute"));
  return launch(problem, OCTAVO_TRY(candidates(problem)).front(), stream);
}

}  // namespace octavo::backends::cuda
