// What the products with int8 activations are made of: a weight of a block type as the kernels of
// an instruction set multiply with it, and activations rounded for it.
#pragma once

#include "backends/cpu/linear_panels.h"
#include "backends/cpu/micro_kernels.h"
#include "ops/k_values.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

class Int8Matrix {
 public:
  // `outliers`: as in LinearArgs, of the activations it is multiplied with.
  Int8Matrix(const ops::Weight& w, const Int8Kernels& kernels, bool outliers);

  const Int8Kernel& kernel() const { return kernel_; }
  int64_t blocks() const { return blocks_; }            // of 32 values, in a row
  int64_t fine_blocks() const { return fine_blocks_; }  // how many of them, of a row of activations
  int64_t x_stride() const { return blocks_ + fine_blocks_; }

  // Whether activations that were rounded for one can be multiplied with the other.
  bool shares_input_with(const Int8Matrix& other) const {
    return kernel_.zero == other.kernel_.zero && kernel_.parts == other.kernel_.parts &&
           blocks_ == other.blocks_ && fine_blocks_ == other.fine_blocks_;
  }

  // A panel times rows [task.row, ...) of x, which are x_stride() apart.
  void multiply(const PanelTask& task, const QuantizedBlock* x, Arena& arena) const;

 private:
  const ops::Weight& w_;
  const Int8Kernels& kernels_;
  bool by_kernel_;  // else rows are unpacked one by one
  const Int8Kernel& kernel_;
  ops::UnpackRowFn unpack_row_;
  int64_t blocks_;
  int64_t fine_blocks_;
  int64_t chunk_;  // blocks of the file that are unpacked at a time
};

// A norm that activations go through before they are rounded.
struct InputNorm {
  const float* weight = nullptr;  // [cols]; null: none
  float eps = 0;
  ops::Mat normed;  // scratch of x's shape; unused without a weight
};

// x, normed and rounded for `matrix`. Few rows stay on the calling thread: that takes less time
// than to wait for another.
QuantizedBlock* quantize_input(ops::ExecContext& ctx, const ops::Mat& x, const InputNorm& norm,
                               const Int8Matrix& matrix, const Int8Kernels& kernels, Arena& shared);

}  // namespace octavo::backends::cpu
