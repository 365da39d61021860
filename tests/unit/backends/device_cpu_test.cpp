#include "backends/cpu/device_cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/pack_row_major.h"
#include "backends/ref/ref.h"

namespace octavo::backends {
namespace {

TEST(CpuDevice, AllocatesZeroedAlignedMemory) {
  for (const int64_t size : {int64_t{1}, int64_t{1000}, int64_t{5} << 20}) {
    Result<Buffer> buffer = cpu::cpu_device().allocate(size, "test");
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->size_bytes, size);
    const auto* bytes = buffer->as<uint8_t>();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 64, 0u);
    EXPECT_TRUE(std::all_of(bytes, bytes + size, [](uint8_t b) { return b == 0; }));
    buffer->as<uint8_t>()[size - 1] = 7;  // writable to the end
  }
}

TEST(CpuDevice, LargeBuffersAreLazyAndImpossibleOnesAnError) {
  // Far more than any test machine has, but never touched.
  const Result<Buffer> lazy = cpu::cpu_device().allocate(int64_t{1} << 40, "lazy");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_TRUE(lazy.ok()) << lazy.status().message();
#endif
  const Result<Buffer> none = cpu::cpu_device().allocate(int64_t{1} << 60, "the KV cache");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(none.status().message().find("the KV cache"), std::string::npos);
  EXPECT_FALSE(cpu::cpu_device().allocate(-1, "negative").ok());
  EXPECT_TRUE(cpu::cpu_device().allocate(0, "nothing").ok());
}

TEST(CpuDevice, Copies) {
  const Result<Buffer> buffer = cpu::cpu_device().allocate(16, "test");
  const int32_t out[4] = {1, 2, 3, 4};
  int32_t in[4] = {};
  cpu::cpu_device().copy_to_device(buffer->data.get(), out, sizeof(out));
  cpu::cpu_device().copy_to_host(in, buffer->data.get(), sizeof(in));
  EXPECT_TRUE(std::equal(in, in + 4, out));
  cpu::cpu_device().copy_to_host(nullptr, nullptr, 0);
}

class PackRowMajor : public ::testing::Test {
 protected:
  Result<ops::Weight> pack(DType dtype, Shape shape) {
    Tensor tensor;
    tensor.name = "blk.0.ffn_up.weight";
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.data = bytes_.get();
    tensor.owner = bytes_;
    ops::PackContext ctx{cpu::cpu_device(), nullptr, nullptr};
    return ops_.pack_weight(ops_, ctx, tensor, source_rows_);
  }
  void expect_refused(DType dtype, Shape shape, StatusCode code) {
    const Result<ops::Weight> weight = pack(dtype, std::move(shape));
    ASSERT_FALSE(weight.ok());
    EXPECT_EQ(weight.status().code(), code);
    EXPECT_NE(weight.status().message().find("blk.0.ffn_up.weight"), std::string::npos);
  }

  ops::Ops ops_ = ref::make_ops();
  std::vector<int64_t> source_rows_;
  std::shared_ptr<std::byte[]> bytes_{new std::byte[4096]};
};

TEST_F(PackRowMajor, IsAView) {
  const Result<ops::Weight> weight = pack(DType::kQ4_1, {3, 64});
  ASSERT_TRUE(weight.ok());
  EXPECT_EQ(weight->data, bytes_.get());
  EXPECT_EQ(weight->row(2), bytes_.get() + 80);
  EXPECT_EQ(weight->size_bytes(), 120);
  EXPECT_EQ(bytes_.use_count(), 2);
}

TEST_F(PackRowMajor, CopiesRowsInAnotherOrder) {
  for (int i = 0; i < 120; ++i) bytes_[i] = static_cast<std::byte>(i);
  source_rows_ = {2, 0, 1};
  const Result<ops::Weight> weight = pack(DType::kQ4_1, {3, 64});
  ASSERT_TRUE(weight.ok());
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(std::memcmp(weight->row(row), bytes_.get() + source_rows_[row] * 40, 40), 0);
  }
  EXPECT_EQ(bytes_.use_count(), 1);
}

TEST_F(PackRowMajor, RefusesWhatIsNoWeight) {
  expect_refused(DType::kF32, {8}, StatusCode::kDataLoss);
  expect_refused(DType::kF32, {2, 2, 2}, StatusCode::kDataLoss);
  expect_refused(DType::kF32, {0, 4}, StatusCode::kDataLoss);
  expect_refused(DType::kQ8_0, {4, 33}, StatusCode::kDataLoss);
  expect_refused(DType::kF64, {2, 2}, StatusCode::kUnsupported);
  expect_refused(DType::kI32, {2, 2}, StatusCode::kUnsupported);
}

}  // namespace
}  // namespace octavo::backends
