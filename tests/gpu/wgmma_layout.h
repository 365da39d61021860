// One product of a warpgroup from tiles that TMA brought: shows that tensor maps, swizzle,
// descriptors and fragments agree, without anything else of an attention kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::backends::cuda {

struct LayoutProbe {
  int n, k;
  bool mn_major;  // b is [k, n] and a in registers; else b is [n, k]
  // out: [64, n] float; a: [64, k], b: bfloat16. B comes in boxes of `box_rows`. Empty, or what
  // went wrong.
  std::string (*run)(float* out, const uint16_t* a, const uint16_t* b, int box_rows);
};

const std::vector<LayoutProbe>& layout_probes();

}  // namespace octavo::backends::cuda
