#include "backends/registry.h"

#include "backends/cpu/device_cpu.h"
#include "backends/ref/ref.h"
#include "backends/select.h"
#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "base/log.h"

#if OCTAVO_WITH_CUDA
#include "backends/cuda/backend_cuda.h"
#include "backends/cuda/describe.h"
#endif

namespace octavo::backends {
namespace {

#if OCTAVO_WITH_CUDA
constexpr bool kHasGpuSupport = true;
#else
constexpr bool kHasGpuSupport = false;
#endif

Result<Backend> open_ref(Arithmetic arithmetic) {
  if (arithmetic != Arithmetic::kAuto && arithmetic != Arithmetic::kFloat32) {
    return unsupported(format("the backend 'ref' computes in float32 only, not in {}",
                              arithmetic_name(arithmetic)));
  }
  Backend backend;
  backend.name = "ref";
  backend.kernels = "ref";
  backend.kernels_reason = "the only one of this backend";
  backend.arithmetic = Arithmetic::kFloat32;
  backend.device = &cpu::cpu_device();
  backend.ops = ref::make_ops();
  return backend;
}

Result<Backend> open_gpu([[maybe_unused]] Arithmetic arithmetic, [[maybe_unused]] Packing packing) {
#if OCTAVO_WITH_CUDA
  return cuda::open_cuda(arithmetic, packing);
#else
  return unsupported("the backend 'cuda': this build has no GPU support (CPU only)");
#endif
}

// A kernel set of the CPU that was forced asks for the CPU.
Result<Backend> open_best(Arithmetic arithmetic, Packing packing) {
  const std::string forced = env_string("OCTAVO_KERNELS");
  if (!kHasGpuSupport || !forced.empty()) return open_cpu(arithmetic, forced, packing);
  auto gpu = open_gpu(arithmetic, packing);
  if (gpu.ok()) return gpu;
  Backend backend = OCTAVO_TRY(open_cpu(arithmetic, forced, packing));
  backend.kernels_reason += format("; no GPU is used: {}", gpu.status().message());
  log_info("computing on the CPU: {}", gpu.status().message());
  return backend;
}

}  // namespace

Result<Backend> open_backend(std::string_view name, Arithmetic arithmetic, Packing packing) {
  if (name == "auto") return open_best(arithmetic, packing);
  if (name == "cpu") return open_cpu(arithmetic, env_string("OCTAVO_KERNELS"), packing);
  if (name == "cuda") return open_gpu(arithmetic, packing);
  if (name == "ref") return open_ref(arithmetic);
  return invalid_argument(
      format("no backend is called '{}'; there are: auto, cpu, cuda, ref", name));
}

void use_attention([[maybe_unused]] Backend& backend,
                   [[maybe_unused]] const AttentionChoice& choice) {
#if OCTAVO_WITH_CUDA
  if (backend.name == "cuda") backend.ops.attention = cuda::attention_fn(choice);
#endif
}

AttentionFacts attention_facts(const Backend& backend) {
  AttentionFacts facts;
  facts.backend = backend.name;
  facts.compute_capability = backend.compute_capability;
  return facts;
}

std::vector<std::string> describe_kernels(const Backend& backend) {
  std::vector<std::string> lines;
  for (const ChosenKernel& chosen : chosen_kernels(backend.ops)) {
    lines.push_back(format("{}: {}", chosen.what, chosen.kernel->name));
  }
  if (lines.empty()) lines.push_back(format("every op: {}", backend.kernels));
  return lines;
}

std::vector<std::string> describe_gpu() {
#if OCTAVO_WITH_CUDA
  return describe_cuda();
#else
  return {"this build has no GPU support (CPU only)"};
#endif
}

}  // namespace octavo::backends
