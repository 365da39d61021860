#include "backends/cuda/cublaslt.h"

#include <dlfcn.h>

#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

// The loader's own places first, then where the toolkit is by default.
constexpr const char* kPlaces[] = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Null, or the first function that the library does not have.
const char* find_all(void* library, Cublaslt& lt) {
#define OCTAVO_FIND(member, name) \
  if (!find(library, #name, lt.member)) return #name
  OCTAVO_FIND(create, cublasLtCreate);
  OCTAVO_FIND(destroy, cublasLtDestroy);
  OCTAVO_FIND(status_string, cublasLtGetStatusString);
  OCTAVO_FIND(matmul, cublasLtMatmul);
  OCTAVO_FIND(algo_get_heuristic, cublasLtMatmulAlgoGetHeuristic);
  OCTAVO_FIND(algo_check, cublasLtMatmulAlgoCheck);
  OCTAVO_FIND(algo_config_get, cublasLtMatmulAlgoConfigGetAttribute);
  OCTAVO_FIND(desc_create, cublasLtMatmulDescCreate);
  OCTAVO_FIND(desc_destroy, cublasLtMatmulDescDestroy);
  OCTAVO_FIND(desc_set, cublasLtMatmulDescSetAttribute);
  OCTAVO_FIND(layout_create, cublasLtMatrixLayoutCreate);
  OCTAVO_FIND(layout_destroy, cublasLtMatrixLayoutDestroy);
  OCTAVO_FIND(preference_create, cublasLtMatmulPreferenceCreate);
  OCTAVO_FIND(preference_destroy, cublasLtMatmulPreferenceDestroy);
  OCTAVO_FIND(preference_set, cublasLtMatmulPreferenceSetAttribute);
#undef OCTAVO_FIND
  return nullptr;
}

Result<Cublaslt> load() {
  std::string tried;
  for (const char* place : kPlaces) {
    void* library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += format("{}{}", tried.empty() ? "" : ", ", place);
      continue;
    }
    Cublaslt lt = {};
    decltype(&cublasLtGetVersion) get_version = nullptr;
    const char* missing = "cublasLtGetVersion";
    if (find(library, missing, get_version)) missing = find_all(library, lt);
    if (missing != nullptr) return unsupported(format("cuBLASLt: {} has no {}", place, missing));
    lt.version = static_cast<int>(get_version());
    Dl_info info = {};
    const bool known = dladdr(reinterpret_cast<void*>(lt.create), &info) != 0;
    lt.path = known && info.dli_fname != nullptr ? info.dli_fname : place;
    return lt;  // the library stays loaded
  }
  return not_found(format("cuBLASLt is not there; tried {}", tried));
}

}  // namespace

const Result<Cublaslt>& cublaslt() {
  static const Result<Cublaslt> loaded = load();
  return loaded;
}

}  // namespace octavo::backends::cuda
