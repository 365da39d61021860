// Measures single ops of the CPU backend, for `octavo bench kernels`: the shapes of two models, all
// weight types, a few numbers of rows. Weights, keys and values come from memory in every call, as
// those of a model do, activations from the caches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::backends {

// Call `i`; its weights are not those of the calls shortly before.
using KernelCall = std::function<void(int64_t i)>;

struct KernelCase {
  std::string name;       // "linear q4_0 1536x576 rows=8"
  std::string kernel;     // "int8_avx512_vnni"
  std::string_view peak;  // what bounds its arithmetic, of KernelBench::peak; "": memory alone
  double bytes = 0;       // that a call has to read from memory; without `peak` to read and write
  double multiply_adds = 0;  // of a call
  std::function<Result<KernelCall>()> prepare;
};

class KernelBench {
 public:
  // Of the kernel set that the machine or OCTAVO_KERNELS chooses. `threads`: 0 for all there are.
  static Result<std::unique_ptr<KernelBench>> create(int threads);
  ~KernelBench();
  KernelBench(const KernelBench&) = delete;
  KernelBench& operator=(const KernelBench&) = delete;

  const std::string& kernels() const;  // the kernel set
  int num_threads() const;

  // In the order of their names' parts. They use this object.
  std::vector<KernelCase> cases();

  // Seconds of a call: the median over some 50 ms.
  Result<double> measure(const KernelCase& one);

  // Multiply-adds a second of all threads by a loop that touches registers only; the best of some.
  double peak(std::string_view name);

 private:
  struct Impl;
  explicit KernelBench(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::backends
