#include "kernel_test_util.h"

#include "tensor/float16.h"
#include "tensor/float8.h"

namespace octavo::testing {
namespace {

void fill(Rng& rng, DType dtype, std::byte* dst) {
  if (dtype_traits(dtype).quantized) return fill_random_block(rng, dtype, 1, dst);
  const float value = random_normal(rng);
  if (dtype == DType::kF8E4M3) {
    *dst = static_cast<std::byte>(float_to_e4m3(value));
    return;
  }
  const uint16_t half = dtype == DType::kF16 ? float_to_fp16(value) : float_to_bf16(value);
  if (dtype == DType::kF32) {
    std::memcpy(dst, &value, sizeof(value));
  } else {
    std::memcpy(dst, &half, sizeof(half));
  }
}

}  // namespace

ops::Weight random_weight(Rng& rng, DType dtype, int64_t rows, int64_t cols) {
  const int64_t size = rows * dtype_bytes(dtype, cols);
  std::shared_ptr<std::byte[]> bytes(new std::byte[size]);
  const int32_t step = dtype_traits(dtype).block_bytes;
  for (int64_t i = 0; i < size / step; ++i) fill(rng, dtype, bytes.get() + i * step);
  return {ops::PackedLayout::kRowMajor, dtype, rows, cols, bytes.get(), bytes};
}

Context::Context(int num_threads, int64_t rows, int64_t cols) : pool_(num_threads) {
  const int64_t size = backends::cpu::workspace_bytes(rows, cols, num_threads);
  // Not cleared: kernels may not rely on what is in there.
  memory_.reset(new std::byte[size + 64]);
  void* aligned = memory_.get();
  size_t space = size + 64;
  ctx_.workspace = static_cast<std::byte*>(std::align(64, size, aligned, space));
  ctx_.workspace_bytes = size;
  ctx_.pool = &pool_;
  std::memset(aligned, 0xFF, std::min<int64_t>(size, 1 << 20));  // NaN
}

std::vector<const backends::cpu::Kernel*> runnable_kernels(std::string_view op) {
  std::vector<const backends::cpu::Kernel*> kernels;
  for (const backends::cpu::Kernel& kernel : backends::cpu::kernel_table()) {
    if (kernel.op == op && backends::cpu::isa_supported(kernel.isa)) kernels.push_back(&kernel);
  }
  return kernels;
}

}  // namespace octavo::testing
