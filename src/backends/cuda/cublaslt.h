// cuBLASLt, loaded when it is first needed. It is not linked: the shared library would keep octavo
// from starting on machines without it, and the static one is as large as it, 540 MB.
#pragma once

#include <cublasLt.h>

#include <string>

#include "octavo/status.h"

namespace octavo::backends::cuda {

// The functions that octavo calls, by their names in the library.
struct Cublaslt {
  std::string path;
  int version = 0;  // 130100 is 13.1.0
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algo_get_heuristic;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_config_get;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
};

// Loads it once and keeps it. The error says where it was looked for.
const Result<Cublaslt>& cublaslt();

}  // namespace octavo::backends::cuda
