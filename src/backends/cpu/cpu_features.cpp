// What this CPU can do; the only file that asks CPUID.
#include <cpuid.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/isa.h"
#include "backends/registry.h"

namespace octavo::backends {
namespace {

// Not among the names that clang 16 knows. It uses AVX's registers.
bool has_f16c() {
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
         (c & bit_F16C) != 0;
}

}  // namespace

// __builtin_cpu_supports also checks (XGETBV) that the operating system saves the registers.
std::vector<CpuFeature> cpu_features() {
  return {
      {"sse4.2", __builtin_cpu_supports("sse4.2") != 0},
      {"avx2", __builtin_cpu_supports("avx2") != 0},
      {"fma", __builtin_cpu_supports("fma") != 0},
      {"f16c", has_f16c()},
      {"avx512f", __builtin_cpu_supports("avx512f") != 0},
      {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
      {"avx512dq", __builtin_cpu_supports("avx512dq") != 0},
      {"avx512_vnni", __builtin_cpu_supports("avx512vnni") != 0},
      {"avx512_bf16", __builtin_cpu_supports("avx512bf16") != 0},
  };
}

std::string cpu_model_name() {
  unsigned words[12] = {};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* w = words + 4 * i;
    if (__get_cpuid(0x80000002u + i, w, w + 1, w + 2, w + 3) == 0) return "unknown x86-64 CPU";
  }
  char text[sizeof(words) + 1] = {};
  std::memcpy(text, words, sizeof(words));
  std::string name = text;
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
}

namespace cpu {
namespace {

bool has(std::initializer_list<std::string_view> names) {
  static const std::vector<CpuFeature> features = cpu_features();
  return std::all_of(names.begin(), names.end(), [](std::string_view name) {
    return std::any_of(features.begin(), features.end(),
                       [&](const CpuFeature& f) { return f.name == name && f.present; });
  });
}

}  // namespace

std::optional<Isa> parse_isa(std::string_view name) {
  for (size_t i = 0; i < kIsaNames.size(); ++i) {
    if (kIsaNames[i] == name) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

bool isa_supported(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return true;
    case Isa::kAvx2:
      return has({"avx2", "fma", "f16c"});
    case Isa::kAvx512:
      return isa_supported(Isa::kAvx2) && has({"avx512f", "avx512bw", "avx512vl", "avx512dq"});
    case Isa::kAvx512Vnni:
      return isa_supported(Isa::kAvx512) && has({"avx512_vnni"});
    case Isa::kAvx512Bf16:
      return isa_supported(Isa::kAvx512Vnni) && has({"avx512_bf16"});
  }
  return false;
}

Isa best_isa() {
  for (size_t i = kIsaNames.size() - 1; i > 0; --i) {
    if (isa_supported(static_cast<Isa>(i))) return static_cast<Isa>(i);
  }
  return Isa::kGeneric;
}

}  // namespace cpu
}  // namespace octavo::backends
