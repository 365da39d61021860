// From the CPU's table of kernels to one function pointer per op: the best row that the machine
// (or the forced kernel set) supports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/table.h"

namespace octavo::backends {

// `forced` is a kernel set by name (isa.h), or "" for the best of this CPU. An unknown name, or one
// that this CPU cannot run, is an error that lists what there is.
Result<Backend> open_cpu(Arithmetic arithmetic, std::string_view forced,
                         Packing packing = Packing::kFast);

// The rows of the table that `ops` points to, one per op and weight type.
struct ChosenKernel {
  std::string what;  // "linear q4_1 int8", "attention"
  const cpu::Kernel* kernel;
};
std::vector<ChosenKernel> chosen_kernels(const ops::Ops& ops);

}  // namespace octavo::backends
