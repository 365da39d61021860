// The list of compiled-in backends, and what the machine has: all that the engine and the command
// line see of this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/attention_choice.h"
#include "backends/backend.h"
#include "octavo/status.h"

namespace octavo::backends {

// Resolves a backend. `name`: auto, cpu, cuda or ref. One that cannot run here, or cannot compute
// in `arithmetic`, is an error that says why; auto takes the CPU then. OCTAVO_KERNELS forces a
// kernel set of the CPU backend.
Result<Backend> open_backend(std::string_view name, Arithmetic arithmetic,
                             Packing packing = Packing::kFast);

// From now on the backend's attention is this one.
void use_attention(Backend& backend, const AttentionChoice& choice);

// What choose_attention needs to know of an open backend.
AttentionFacts attention_facts(const Backend& backend);

// What `doctor` shows of the CPU.
struct CpuFeature {
  std::string name;
  bool present;
};
std::string cpu_model_name();
std::vector<CpuFeature> cpu_features();

// Every kernel of the chosen set, for `doctor`: "linear q4_1 int8: avx512_vnni".
std::vector<std::string> describe_kernels(const Backend& backend);

// The GPU part in one sentence per fact; says so where this build has none.
std::vector<std::string> describe_gpu();

}  // namespace octavo::backends
