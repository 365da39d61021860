// Blocks copied inside a pool and swapped with host memory, against the same moves on the host.
#include "backends/cuda/kv_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "backends/cuda/device_cuda.h"
#include "tests/gpu/device_array.h"

namespace octavo::backends::cuda {
namespace {

BlockPool pool_of(void* data, int num_parts, int64_t num_blocks, int64_t block_bytes) {
  return {static_cast<std::byte*>(data), num_parts, num_blocks * block_bytes, block_bytes,
          num_blocks};
}

std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
  return bytes;
}

// Distinct blocks of 0 .. num_blocks - 1 in random order.
std::vector<int32_t> shuffled_blocks(int num_blocks, uint64_t seed) {
  std::vector<int32_t> blocks(static_cast<size_t>(num_blocks));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::mt19937_64 rng(seed);
  std::shuffle(blocks.begin(), blocks.end(), rng);
  return blocks;
}

void move_on_host(std::vector<uint8_t>& to, const std::vector<uint8_t>& from,
                  const BlockPool& to_pool, const BlockPool& from_pool,
                  const std::vector<BlockMove>& moves) {
  for (int64_t part = 0; part < to_pool.num_parts; ++part) {
    for (const BlockMove& move : moves) {
      std::copy_n(
          from.begin() + part * from_pool.part_stride_bytes + move.from * from_pool.block_bytes,
          to_pool.block_bytes,
          to.begin() + part * to_pool.part_stride_bytes + move.to * to_pool.block_bytes);
    }
  }
}

class KvBlocksTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(KvBlocksTest, CopiesAllPartsAndNothingElse) {
  struct Case {
    int parts, blocks, moves;
    int64_t block_bytes;
  };
  for (const Case& c : {Case{1, 2, 1, 16},
                        {64, 40, 20, 1040},
                        {6, 33, 7, 32768},
                        {2, 3000, 1100, 48},
                        {4, 9, 4, 100000},
                        {3, 5, 0, 64}}) {
    const auto size = static_cast<size_t>(c.parts * c.blocks * c.block_bytes);
    std::vector<uint8_t> want = random_bytes(size, 3);
    const DeviceArray<uint8_t> memory(want);
    const BlockPool pool = pool_of(memory.data(), c.parts, c.blocks, c.block_bytes);
    // A source may have several copies, as beams have.
    const std::vector<int32_t> blocks = shuffled_blocks(c.blocks, 4);
    std::vector<BlockMove> moves;
    for (int i = 0; i < c.moves; ++i) {
      moves.push_back(
          {blocks[static_cast<size_t>(c.moves + i / 2)], blocks[static_cast<size_t>(i)]});
    }
    const Status status = copy_blocks(pool, moves, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<uint8_t> before = want;
    move_on_host(want, before, pool, pool, moves);
    EXPECT_EQ(memory.download(), want) << c.parts << " parts, " << c.moves << " moves";
  }
}

TEST_F(KvBlocksTest, SwapsOutAndInAgain) {
  CudaDevice& device = *CudaDevice::open(0).value();
  constexpr int kParts = 8, kBlocks = 37, kHostBlocks = 50;
  constexpr int64_t kBlockBytes = 4096;
  const std::vector<uint8_t> values = random_bytes(kParts * kBlocks * kBlockBytes, 5);
  DeviceArray<uint8_t> memory(values);
  const Buffer pinned = device.allocate_pinned(kParts * kHostBlocks * kBlockBytes, "swap").value();
  std::vector<uint8_t> host = random_bytes(static_cast<size_t>(pinned.size_bytes), 6);
  std::copy(host.begin(), host.end(), pinned.as<uint8_t>());
  const BlockPool gpu = pool_of(memory.data(), kParts, kBlocks, kBlockBytes);
  const BlockPool ram = pool_of(pinned.data.get(), kParts, kHostBlocks, kBlockBytes);
  // Runs of neighbours, which become one copy, a gap on either side, and single blocks.
  const std::vector<BlockMove> out = {{3, 10}, {4, 11},  {5, 12}, {7, 13},
                                      {8, 15}, {36, 49}, {0, 0}};
  const Stream stream;
  Status status = swap_blocks(ram, gpu, out, stream.get());
  ASSERT_TRUE(status.ok()) << status.message();
  stream.synchronize();
  move_on_host(host, values, ram, gpu, out);
  EXPECT_TRUE(std::equal(host.begin(), host.end(), pinned.as<uint8_t>()));

  memory.fill_bytes(0xFF);
  check_cuda(cudaDeviceSynchronize(), "cudaMemset");
  std::vector<uint8_t> want(values.size(), 0xFF);
  std::vector<BlockMove> in;
  for (const BlockMove& move : out) in.push_back({move.to, move.from});
  status = swap_blocks(gpu, ram, in, stream.get());
  ASSERT_TRUE(status.ok()) << status.message();
  stream.synchronize();
  move_on_host(want, values, gpu, gpu, [&] {
    std::vector<BlockMove> same;
    for (const BlockMove& move : out) same.push_back({move.from, move.from});
    return same;
  }());
  EXPECT_EQ(memory.download(), want);
}

// Needs no GPU.
TEST(KvBlocks, RefusesMovesThatCannotBeRight) {
  const BlockPool pool = pool_of(nullptr, 4, 10, 64);
  const BlockPool other = pool_of(nullptr, 4, 3, 64);
  const auto stream = reinterpret_cast<cudaStream_t>(16);  // never used
  const auto refused = [](const Status& status, const char* part) {
    ASSERT_FALSE(status.ok()) << part;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  using Moves = std::vector<BlockMove>;
  refused(copy_blocks(pool, Moves{{10, 1}}, nullptr), "block 10 of a pool of 10");
  refused(copy_blocks(pool, Moves{{1, -1}}, nullptr), "block -1");
  refused(copy_blocks(pool, Moves{{1, 2}, {3, 2}}, nullptr), "block 2 is written twice");
  refused(copy_blocks(pool, Moves{{1, 2}, {2, 3}}, nullptr), "block 2 is both");
  refused(copy_blocks(pool, Moves{{1, 1}}, nullptr), "block 1 is both");
  refused(copy_blocks(pool_of(nullptr, 4, 10, 24), {}, nullptr), "blocks of 24 bytes");
  refused(swap_blocks(other, pool, Moves{{9, 3}}, stream), "block 3 of a pool of 3");
  refused(swap_blocks(pool, other, Moves{{3, 9}}, stream), "block 3 of a pool of 3");
  refused(swap_blocks(pool, other, Moves{{1, 4}, {2, 4}}, stream), "written twice");
  refused(swap_blocks(pool, pool_of(nullptr, 5, 3, 64), {}, stream), "5 parts");
  refused(swap_blocks(pool, pool_of(nullptr, 4, 3, 32), {}, stream), "blocks of 32");
  refused(swap_blocks(pool, other, Moves{{1, 1}}, nullptr), "default stream");
  EXPECT_TRUE(copy_blocks(pool, {}, nullptr).ok());
  EXPECT_TRUE(swap_blocks(pool, other, {}, stream).ok());
}

}  // namespace
}  // namespace octavo::backends::cuda
