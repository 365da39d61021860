// The GPU as a Device, streams, events and graphs. Without a GPU, that opening one says so.
#include "backends/cuda/device_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backends/cuda/graph.h"
#include "tests/gpu/device_array.h"

namespace octavo::backends::cuda {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(CudaDevice, OneThatIsNotThereIsAnErrorWithItsName) {
  for (const int index : {-1, 1000}) {
    const auto device = CudaDevice::open(index);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.status().code(), StatusCode::kNotFound);
    EXPECT_TRUE(contains(device.status().message(), "cuda:" + std::to_string(index)))
        << device.status().message();
  }
}

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
    auto device = CudaDevice::open(0);
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = *device;
  }

  std::vector<uint8_t> download(const Buffer& buffer) {
    std::vector<uint8_t> bytes(static_cast<size_t>(buffer.size_bytes));
    device_->copy_to_host(bytes.data(), buffer.data.get(), buffer.size_bytes);
    return bytes;
  }

  CudaDevice* device_ = nullptr;
};

TEST_F(CudaDeviceTest, IsWhatTheRuntimeSays) {
  EXPECT_EQ(device_->name(), "cuda:0");
  EXPECT_FALSE(device_->host_accessible());
  EXPECT_GE(device_->properties().compute_capability, 80);
  EXPECT_GT(device_->properties().l2_bytes, 0);
  EXPECT_EQ(CudaDevice::open(0).value(), device_);
  const MemoryInfo info = device_->memory();
  EXPECT_GT(info.free_bytes, 0);
  EXPECT_LE(info.free_bytes, info.total_bytes);
}

TEST_F(CudaDeviceTest, CopiesOnTheDevice) {
  constexpr int64_t kSize = 1000;
  const auto from = device_->allocate(kSize, "test"), to = device_->allocate(kSize, "test");
  ASSERT_TRUE(from.ok() && to.ok());
  std::vector<uint8_t> bytes(kSize);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  auto* source = from->as<uint8_t>();
  auto* target = to->as<uint8_t>();
  device_->copy_to_device(source, bytes.data(), kSize);
  device_->copy_on_device(target + 3, source + 10, 500);
  device_->copy_on_device(target, source, 0);
  std::vector<uint8_t> want(kSize, 0);  // what is allocated is zero
  std::copy_n(bytes.begin() + 10, 500, want.begin() + 3);
  EXPECT_EQ(download(*to), want);
  EXPECT_EQ(download(*from), bytes);
}

// Memory that was used and freed must be zero again.
TEST_F(CudaDeviceTest, AllocatesZeroedAlignedMemory) {
  for (int round = 0; round < 3; ++round) {
    for (const int64_t size : {int64_t{1}, int64_t{1000}, int64_t{5} << 20}) {
      const Result<Buffer> buffer = device_->allocate(size, "test");
      ASSERT_TRUE(buffer.ok()) << buffer.status().message();
      EXPECT_EQ(buffer->size_bytes, size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data.get()) % 256, 0u);
      const std::vector<uint8_t> bytes = download(*buffer);
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; }));
      const std::vector<uint8_t> dirt(bytes.size(), 0xAB);
      device_->copy_to_device(buffer->data.get(), dirt.data(), size);
      EXPECT_EQ(download(*buffer), dirt);
    }
  }
}

TEST_F(CudaDeviceTest, FreedMemoryIsFreeAgain) {
  const int64_t before = device_->memory().free_bytes;
  constexpr int64_t kSize = int64_t{256} << 20;
  {
    const Result<Buffer> buffer = device_->allocate(kSize, "test");
    ASSERT_TRUE(buffer.ok());
    EXPECT_LE(device_->memory().free_bytes, before - kSize + (int64_t{64} << 20));
  }
  check_cuda(cudaStreamSynchronize(device_->stream()), "cudaStreamSynchronize");
  EXPECT_GE(device_->memory().free_bytes, before - (int64_t{64} << 20));
}

TEST_F(CudaDeviceTest, TooMuchMemoryIsAnErrorThatSaysHowMuchThereIs) {
  const int64_t all = device_->properties().memory_bytes;
  for (const int64_t size : {all, all + 1, int64_t{1} << 60}) {
    const Result<Buffer> none = device_->allocate(size, "the KV cache");
    ASSERT_FALSE(none.ok()) << size;
    EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(contains(none.status().message(), "the KV cache: cannot allocate"));
    EXPECT_TRUE(contains(none.status().message(), "GiB are free")) << none.status().message();
  }
  EXPECT_FALSE(device_->allocate(-1, "negative").ok());
  EXPECT_TRUE(device_->allocate(0, "nothing").ok());
  EXPECT_EQ(device_->allocate_pinned(int64_t{1} << 60, "swap").status().code(),
            StatusCode::kResourceExhausted);
  // A failure must not be reported by what comes next.
  EXPECT_TRUE(device_->allocate(1024, "after").ok());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaDeviceTest, PinnedMemoryIsCopiedBehindTheHostsBack) {
  constexpr size_t kCount = 1 << 20;
  const Result<Buffer> pinned = device_->allocate_pinned(kCount * sizeof(int32_t), "test");
  const Result<Buffer> memory = device_->allocate(kCount * sizeof(int32_t), "test");
  ASSERT_TRUE(pinned.ok());
  ASSERT_TRUE(memory.ok());
  auto* values = pinned->as<int32_t>();
  std::iota(values, values + kCount, 7);
  const std::vector<int32_t> want(values, values + kCount);
  const Stream stream;
  Event copied;
  check_cuda(cudaMemcpyAsync(memory->data.get(), values, kCount * sizeof(int32_t),
                             cudaMemcpyDefault, stream.get()),
             "cudaMemcpyAsync");
  copied.record(stream.get());
  copied.synchronize();
  EXPECT_TRUE(copied.reached());
  std::fill_n(values, kCount, 0);
  std::vector<int32_t> got(kCount);
  device_->copy_to_host(got.data(), memory->data.get(), memory->size_bytes);
  EXPECT_EQ(got, want);
}

// The second stream's copy must see what the first one wrote late.
TEST_F(CudaDeviceTest, AnEventHoldsAnotherStream) {
  constexpr size_t kSize = size_t{64} << 20;
  DeviceArray<uint8_t> from(kSize), to(kSize);
  from.fill_bytes(1);
  check_cuda(cudaDeviceSynchronize(), "cudaMemset");
  const Stream first, second;
  for (int round = 2; round < 12; ++round) {
    Event written;
    check_cuda(cudaMemsetAsync(from.data(), round, kSize, first.get()), "cudaMemsetAsync");
    written.record(first.get());
    written.hold(second.get());
    check_cuda(cudaMemcpyAsync(to.data(), from.data(), kSize, cudaMemcpyDefault, second.get()),
               "cudaMemcpyAsync");
    second.synchronize();
    uint8_t last = 0;
    check_cuda(cudaMemcpy(&last, to.data() + kSize - 1, 1, cudaMemcpyDefault), "cudaMemcpy");
    EXPECT_EQ(last, round);
  }
}

TEST_F(CudaDeviceTest, TimedEventsMeasure) {
  const Stream stream;
  DeviceArray<uint8_t> memory(size_t{512} << 20);
  Event begin(Event::Timing::kOn), end(Event::Timing::kOn);
  begin.record(stream.get());
  check_cuda(cudaMemsetAsync(memory.data(), 0, memory.size(), stream.get()), "cudaMemsetAsync");
  end.record(stream.get());
  end.synchronize();
  const double us = Event::elapsed_us(begin, end);
  EXPECT_GT(us, 10.0);  // 50 TB/s
  EXPECT_LT(us, 1e6);
}

class GraphTest : public CudaDeviceTest {
 protected:
  // Fills `size` bytes of the memory with `byte`.
  auto fill(int byte, size_t size) {
    return [this, byte, size] {
      check_cuda(cudaMemsetAsync(memory_->data(), byte, size, stream_->get()), "cudaMemsetAsync");
    };
  }
  void SetUp() override {
    CudaDeviceTest::SetUp();
    if (device_ == nullptr) return;
    stream_ = std::make_unique<Stream>();
    memory_ = std::make_unique<DeviceArray<uint8_t>>(64);
    memory_->fill_bytes(0);
    check_cuda(cudaDeviceSynchronize(), "cudaMemset");
  }
  std::vector<uint8_t> replay(const Graph& graph) {
    graph.launch(stream_->get());
    stream_->synchronize();
    return memory_->download();
  }

  std::unique_ptr<Stream> stream_;
  std::unique_ptr<DeviceArray<uint8_t>> memory_;
};

TEST_F(GraphTest, RunsWhatWasRecordedAndOnlyThen) {
  const Graph graph = Graph::capture(stream_->get(), fill(3, 64));
  stream_->synchronize();
  EXPECT_EQ(memory_->download(), std::vector<uint8_t>(64, 0));
  EXPECT_EQ(replay(graph), std::vector<uint8_t>(64, 3));
  memory_->fill_bytes(9);
  EXPECT_EQ(replay(graph), std::vector<uint8_t>(64, 3));
}

TEST_F(GraphTest, UpdatesInPlaceWhereItCan) {
  Graph graph = Graph::capture(stream_->get(), fill(3, 64));
  EXPECT_TRUE(graph.update(stream_->get(), fill(4, 64)));
  EXPECT_EQ(replay(graph), std::vector<uint8_t>(64, 4));
  const auto twice = [&] {
    fill(5, 64)();
    fill(6, 32)();
  };
  EXPECT_FALSE(graph.update(stream_->get(), twice));
  std::vector<uint8_t> want(64, 5);
  std::fill_n(want.begin(), 32, 6);
  EXPECT_EQ(replay(graph), want);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(GraphTest, ACaptureThatFailsLeavesTheStreamUsable) {
  EXPECT_THROW(Graph::capture(stream_->get(),
                              [&] {
                                fill(7, 64)();
                                throw DeviceError("test", cudaErrorUnknown);
                              }),
               DeviceError);
  // Waiting is not allowed while a stream is recorded.
  EXPECT_THROW(Graph::capture(stream_->get(), [&] { stream_->synchronize(); }), DeviceError);
  cudaGetLastError();
  EXPECT_EQ(memory_->download(), std::vector<uint8_t>(64, 0));
  const Graph graph = Graph::capture(stream_->get(), fill(8, 64));
  EXPECT_EQ(replay(graph), std::vector<uint8_t>(64, 8));
}

}  // namespace
}  // namespace octavo::backends::cuda
