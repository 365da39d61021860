// The grids of the IQ types: constants of the format that were found by search, not by a rule. An
// entry has eight values of two bits or four of three bits, the first lowest; which number a value
// stands for depends on the type. tools/make_iq_grids.py writes iq_grids.cpp.
#pragma once

#include <cstdint>

namespace octavo::ops {

extern const uint16_t kIq3SGrid[512];
extern const uint16_t kIq3XxsGrid[256];
extern const uint16_t kIq2SGrid[1024];
extern const uint16_t kIq2XsGrid[512];
extern const uint16_t kIq2XxsGrid[256];
extern const uint16_t kIq1Grid[2048];  // of IQ1_S and IQ1_M

}  // namespace octavo::ops
