// Times what fills and moves the KV cache: keys and values written with RoPE (32 query heads on 8,
// 128 values, blocks of 16), blocks copied inside the pool, blocks swapped with host memory. Write
// and copy: graphs of at least 20 launches that go round more than 120 MB. Beside each, what
// reading as many bytes takes in the same run; beside a swap, one copy of as many bytes.
//
//   kv_bench [write] [copy] [swap]   only these tables
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/device_cuda.h"
#include "backends/cuda/kv_blocks.h"
#include "backends/cuda/kv_write.h"
#include "bench/kernels/program.h"
#include "bench/kernels/read_ceiling.h"
#include "bench/kernels/timing.h"
#include "tests/gpu/attention_values.h"
#include "tests/gpu/device_array.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 128, kBlockSize = 16;

double gb_per_s(int64_t bytes, double us) {
  return static_cast<double>(bytes) / us * 1e-3;
}

// Microseconds to read `bytes` once, going round `memory`.
double reading_us(const DeviceArray<uint8_t>& memory, int64_t bytes) {
  const int64_t whole = std::max<int64_t>(16384, bytes / 16384 * 16384);
  const int64_t places = std::max<int64_t>(1, static_cast<int64_t>(memory.size()) / whole);
  const double us = time_graph([&](cudaStream_t stream) {
    for (int64_t i = 0; i < kMinLaunches; ++i) {
      launch_read(memory.data() + i % places * whole, whole, stream, false);
    }
  });
  return us / kMinLaunches * static_cast<double>(bytes) / static_cast<double>(whole);
}

struct Layer {
  DeviceArray<uint16_t> qkv;
  DeviceArray<uint8_t> k, v;
  DeviceArray<float> k_scale, v_scale;
};

void bench_write(int num_tokens, DType dtype, KvScale scale, const char* name, bool overlap) {
  constexpr int kRow = (kHeads + 2 * kKvHeads) * kHeadDim;
  const int64_t num_blocks = 2 * (num_tokens / kBlockSize + 1);
  const int64_t rows = num_blocks * kKvHeads * kBlockSize;
  const int64_t value_bytes = dtype_bytes(dtype, 1);
  const int64_t scale_bytes = scale == KvScale::kTokenHead ? 4 : 0;
  const int64_t bytes = num_tokens * (int64_t{2} * kRow + 2 * kHeads * kHeadDim +
                                      2 * kKvHeads * (kHeadDim * value_bytes + scale_bytes));
  const size_t num_layers = static_cast<size_t>(std::clamp<int64_t>(kColdBytes / bytes + 2, 3, 64));
  std::vector<Layer> layers(num_layers);
  for (Layer& layer : layers) {
    layer.qkv = DeviceArray<uint16_t>(static_cast<size_t>(num_tokens) * kRow);
    fill_random_bf16(layer.qkv.data(), int64_t{num_tokens} * kRow, 1);
    layer.k = DeviceArray<uint8_t>(static_cast<size_t>(rows * kHeadDim * value_bytes));
    layer.v = DeviceArray<uint8_t>(static_cast<size_t>(rows * kHeadDim * value_bytes));
    layer.k_scale = DeviceArray<float>(std::vector<float>(static_cast<size_t>(rows), 0.05f));
    layer.v_scale = DeviceArray<float>(std::vector<float>(static_cast<size_t>(rows), 0.05f));
  }
  std::vector<int64_t> slots(static_cast<size_t>(num_blocks * kBlockSize));
  std::iota(slots.begin(), slots.end(), int64_t{0});
  std::shuffle(slots.begin(), slots.end(), std::mt19937_64(1));
  slots.resize(static_cast<size_t>(num_tokens));
  if (num_tokens >= 1024) std::sort(slots.begin(), slots.end());  // a prefill fills blocks in order
  std::vector<int32_t> positions(static_cast<size_t>(num_tokens));
  std::iota(positions.begin(), positions.end(), 1000);
  const DeviceArray<int64_t> device_slots(slots);
  const DeviceArray<int32_t> device_positions(positions);
  const DeviceArray<float> inv_freq(std::vector<float>(kHeadDim / 2, 0.01f));
  const size_t launches = std::max<size_t>(kMinLaunches, num_layers);
  const double us = time_graph([&](cudaStream_t stream) {
                      for (size_t i = 0; i < launches; ++i) {
                        const Layer& layer = layers[i % num_layers];
                        KvWriteArgs args;
                        args.q = layer.qkv.data();
                        args.k = layer.qkv.data() + kHeads * kHeadDim;
                        args.v = layer.qkv.data() + (kHeads + kKvHeads) * kHeadDim;
                        args.q_stride = args.k_stride = args.v_stride = kRow;
                        args.num_tokens = num_tokens;
                        args.num_heads = kHeads;
                        args.num_kv_heads = kKvHeads;
                        args.head_dim = args.rotary_dim = kHeadDim;
                        args.k_cache = layer.k.data();
                        args.v_cache = layer.v.data();
                        args.kv_dtype = dtype;
                        args.num_blocks = num_blocks;
                        args.block_size = kBlockSize;
                        args.slot_mapping = device_slots.data();
                        args.positions = device_positions.data();
                        args.inv_freq = inv_freq.data();
                        args.scale_kind = scale;
                        args.k_scale = layer.k_scale.data();
                        args.v_scale = layer.v_scale.data();
                        check(write_kv(args, stream, overlap));
                      }
                    }) /
                    static_cast<double>(launches);
  const double reading = reading_us(DeviceArray<uint8_t>(256 << 20), bytes);
  std::printf("write %6d tokens %-14s %-9s %9.2f us %8.1f GB/s  reading %8.1f (%5.1f%%)\n",
              num_tokens, name, overlap ? "overlap" : "", us, gb_per_s(bytes, us),
              gb_per_s(bytes, reading), 100.0 * reading / us);
  std::fflush(stdout);
}

void bench_writes() {
  for (const bool overlap : {false, true}) {
    for (const int num_tokens : {1, 16, 128, 1024, 8192}) {
      bench_write(num_tokens, DType::kBF16, KvScale::kTensor, "bf16", overlap);
      bench_write(num_tokens, DType::kF8E4M3, KvScale::kHead, "fp8 head", overlap);
      bench_write(num_tokens, DType::kF8E4M3, KvScale::kTokenHead, "fp8 token-head", overlap);
    }
  }
}

constexpr int kParts = 64;  // K and V of 32 layers
constexpr int64_t kBlockBytes = int64_t{kKvHeads} * kBlockSize * kHeadDim * 2;
constexpr int64_t kPoolBlocks = 1024;

BlockPool pool_of(void* memory) {
  return {static_cast<std::byte*>(memory), kParts, kPoolBlocks * kBlockBytes, kBlockBytes,
          kPoolBlocks};
}

// Random blocks to random others, or runs of neighbours.
std::vector<BlockMove> make_moves(int count, bool neighbours) {
  std::vector<int32_t> blocks(kPoolBlocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  if (!neighbours) std::shuffle(blocks.begin(), blocks.end(), std::mt19937_64(2));
  std::vector<BlockMove> moves;
  for (int i = 0; i < count; ++i) {
    moves.push_back({blocks[static_cast<size_t>(i)], blocks[static_cast<size_t>(count + i)]});
  }
  return moves;
}

void bench_copies() {
  const DeviceArray<uint8_t> memory(static_cast<size_t>(kParts * kPoolBlocks * kBlockBytes));
  for (const int count : {1, 4, 16, 64, 512}) {
    const std::vector<BlockMove> moves = make_moves(count, false);
    const int64_t bytes = 2 * kParts * kBlockBytes * count;
    const double us = time_graph([&](cudaStream_t stream) {
                        for (int i = 0; i < kMinLaunches; ++i) {
                          check(copy_blocks(pool_of(memory.data()), moves, stream));
                        }
                      }) /
                      kMinLaunches;
    const double reading = reading_us(memory, bytes);
    std::printf("copy %5d blocks of %d parts %9.1f us %8.1f GB/s  reading %8.1f (%5.1f%%)\n", count,
                kParts, us, gb_per_s(bytes, us), gb_per_s(bytes, reading), 100.0 * reading / us);
    std::fflush(stdout);
  }
}

void bench_swaps() {
  const auto device = CudaDevice::open(0);
  check(device.status());
  const DeviceArray<uint8_t> memory(static_cast<size_t>(kParts * kPoolBlocks * kBlockBytes));
  const auto pinned = (*device)->allocate_pinned(kParts * kPoolBlocks * kBlockBytes, "swap space");
  check(pinned.status());
  const BlockPool gpu = pool_of(memory.data()), host = pool_of(pinned->data.get());
  const Stream stream;
  for (const bool neighbours : {true, false}) {
    for (const int count : {1, 16, 256}) {
      const std::vector<BlockMove> moves = make_moves(count, neighbours);
      const int64_t bytes = kParts * kBlockBytes * count;
      for (const bool out : {true, false}) {
        const double us = time_us(stream, [&] {
          check(swap_blocks(out ? host : gpu, out ? gpu : host, moves, stream.get()));
        });
        const double plain = time_us(stream, [&] {
          check_cuda(cudaMemcpyAsync(out ? host.data : gpu.data, out ? gpu.data : host.data,
                                     static_cast<size_t>(bytes), cudaMemcpyDefault, stream.get()),
                     "cudaMemcpyAsync");
        });
        std::printf("swap %-3s %4d blocks %-10s %9.1f us %6.2f GB/s  one copy %6.2f (%5.1f%%)\n",
                    out ? "out" : "in", count, neighbours ? "neighbours" : "scattered", us,
                    gb_per_s(bytes, us), gb_per_s(bytes, plain), 100.0 * plain / us);
        std::fflush(stdout);
      }
    }
  }
}

void run(int argc, char** argv) {
  const auto asked = [&](const char* table) {
    return argc < 2 || std::find(argv + 1, argv + argc, std::string(table)) != argv + argc;
  };
  if (asked("write")) bench_writes();
  if (asked("copy")) bench_copies();
  if (asked("swap")) bench_swaps();
}

}  // namespace
}  // namespace octavo::backends::cuda

int main(int argc, char** argv) {
  return octavo::backends::cuda::run_program(octavo::backends::cuda::run, argc, argv);
}
