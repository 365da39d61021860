#include "backends/registry.h"

#include "backends/cpu/device_cpu.h"
#include "backends/ref/ref.h"
#include "backends/select.h"
#include "base/env.h"
#include "base/format.h"

#if OCTAVO_WITH_CUDA
#include "backends/cuda/describe.h"
#endif

namespace octavo::backends {
namespace {

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

}  // namespace

Result<Backend> open_backend(std::string_view name, Arithmetic arithmetic, bool repack) {
  if (name == "auto" || name == "cpu") {
    return open_cpu(arithmetic, env_string("OCTAVO_KERNELS"), repack);
  }
  if (name == "ref") return open_ref(arithmetic);
  return invalid_argument(format("no backend is called '{}'; there are: auto, cpu, ref", name));
}

AttentionFacts attention_facts(const Backend& backend) {
  AttentionFacts facts;
  facts.backend = backend.name;
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
