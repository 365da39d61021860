// Instruction sets that kernels are written for: a chain, each includes the ones before it, so that
// a kernel set is "everything up to here".
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace octavo::backends::cpu {

enum class Isa {
  kGeneric,     // x86-64-v2, the baseline of the build
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, VL, DQ
  kAvx512Vnni,  // + VNNI: int8 dot products
  kAvx512Bf16,  // + BF16 dot products
};
inline constexpr std::array<std::string_view, 5> kIsaNames = {"generic", "avx2", "avx512",
                                                              "avx512_vnni", "avx512_bf16"};

inline std::string_view isa_name(Isa isa) {
  return kIsaNames[static_cast<size_t>(isa)];
}
std::optional<Isa> parse_isa(std::string_view name);

// Whether the CPU has it and the operating system saves its registers.
bool isa_supported(Isa isa);
Isa best_isa();

}  // namespace octavo::backends::cpu
