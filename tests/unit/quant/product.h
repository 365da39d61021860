// The product of a quantised matrix, as a model has a backend compute it.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/registry.h"
#include "base/thread_pool.h"
#include "quant/scheme.h"

namespace octavo::testing {

struct Product {
  std::vector<float> rounded;  // the input in the form that the matrix asks for
  std::vector<float> out;
};

// Of rows `x`, in float32.
inline Product multiply(const char* backend_name, const quant::QuantizedMatrix& matrix,
                        std::vector<float> x) {
  auto backend = backends::open_backend(backend_name, backends::Arithmetic::kFloat32).value();
  ops::PackContext packing{*backend.device, nullptr, nullptr};
  ops::Weight weight = backend.ops.pack_weight(backend.ops, packing, matrix.tensor, {}).value();
  weight.scales = matrix.scales.data();
  weight.scale_block = matrix.scale_block;
  weight.input = matrix.input;
  const int64_t cols = weight.cols;
  const int64_t n = static_cast<int64_t>(x.size()) / cols;
  Product product{std::vector<float>(x.size()), std::vector<float>(n * weight.rows)};
  ThreadPool pool(1);
  std::vector<std::byte> workspace(backend.ops.workspace_bytes(n, cols, 1) +
                                   ops::prepared_input_bytes(n, cols) + 64);
  auto* aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64);
  ops::ExecContext ctx{&pool, aligned, static_cast<int64_t>(workspace.size()) - 64};
  const ops::Mat in(x.data(), DType::kF32, n, cols);
  const ops::Mat rounded(product.rounded.data(), DType::kF32, n, cols);
  backend.ops.prepare_input(ctx, {rounded, in, weight.input});
  backend.ops.linear(ctx, {{product.out.data(), DType::kF32, n, weight.rows}, in, &weight});
  return product;
}

}  // namespace octavo::testing
