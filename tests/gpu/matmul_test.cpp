// Matrix products by cuBLASLt against loops in double precision, and what becomes of measurements.
#include "backends/cuda/matmul.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "backends/cuda/graph.h"
#include "base/format.h"
#include "tensor/float16.h"
#include "tests/gpu/device_array.h"
#include "tests/gpu/e4m3.h"

namespace octavo::backends::cuda {
namespace {

namespace fs = std::filesystem;

// The library loads, or says where it was looked for; both without a GPU.
TEST(Cublaslt, LoadsOrSaysWhereItWasLookedFor) {
  const Result<Cublaslt>& lt = cublaslt();
  if (lt.ok()) {
    EXPECT_EQ(lt->version / 10000, 13) << lt->version;
    EXPECT_NE(lt->path.find("libcublasLt"), std::string::npos) << lt->path;
  } else {
    EXPECT_NE(lt.status().message().find("libcublasLt.so.13"), std::string::npos);
  }
}

struct Shape {
  int64_t tokens, out, in;
  DType dtype = DType::kBF16;
  bool bias = false;
  bool rows = false;
};

struct Data {
  explicit Data(const Shape& s) : shape(s) {
    std::mt19937_64 rng(5);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    const auto fill = [&](std::vector<uint8_t>& bytes, std::vector<double>& values, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        if (s.dtype == DType::kBF16) {
          const uint16_t bits = float_to_bf16(normal(rng));
          bytes.push_back(static_cast<uint8_t>(bits));
          bytes.push_back(static_cast<uint8_t>(bits >> 8));
          values.push_back(bf16_to_float(bits));
        } else {
          bytes.push_back(static_cast<uint8_t>(rng() % 0x50 | (rng() & 0x80)));  // up to 16
          values.push_back(e4m3_to_double(bytes.back()));
        }
      }
    };
    fill(x_bytes, x, s.tokens * s.in);
    fill(w_bytes, w, s.out * s.in);
    const auto scales = [&](int64_t count) {
      std::vector<float> values;
      for (int64_t i = 0; i < (s.rows ? count : 1); ++i) {
        values.push_back(0.25f + 0.5f * std::abs(normal(rng)));
      }
      return values;
    };
    x_scale = scales(s.tokens);
    w_scale = scales(s.out);
    for (int64_t i = 0; i < s.out; ++i) bias.push_back(float_to_bf16(10.0f * normal(rng)));
  }

  // The exact sum and the sum of magnitudes, which bounds what rounding may do.
  std::pair<double, double> exact(int64_t t, int64_t o) const {
    double sum = 0.0, magnitude = 0.0;
    for (int64_t i = 0; i < shape.in; ++i) {
      const double product =
          x[static_cast<size_t>(t * shape.in + i)] * w[static_cast<size_t>(o * shape.in + i)];
      sum += product;
      magnitude += std::abs(product);
    }
    if (shape.dtype == DType::kF8E4M3) {
      const double scale = static_cast<double>(x_scale[shape.rows ? static_cast<size_t>(t) : 0]) *
                           w_scale[shape.rows ? static_cast<size_t>(o) : 0];
      sum *= scale;
      magnitude *= scale;
    }
    if (shape.bias) sum += bf16_to_float(bias[static_cast<size_t>(o)]);
    return {sum, magnitude};
  }

  Shape shape;
  std::vector<uint8_t> x_bytes, w_bytes;
  std::vector<double> x, w;
  std::vector<float> x_scale, w_scale;
  std::vector<uint16_t> bias;
};

struct DeviceData {
  explicit DeviceData(const Data& data)
      : x(data.x_bytes),
        w(data.w_bytes),
        x_scale(data.x_scale),
        w_scale(data.w_scale),
        bias(data.bias),
        out(static_cast<size_t>(data.shape.tokens * data.shape.out)) {
    out.fill_bytes(0xFF);
    const Shape& s = data.shape;
    args.out = out.data();
    args.x = x.data();
    args.w = w.data();
    args.bias = s.bias ? bias.data() : nullptr;
    args.dtype = s.dtype;
    args.num_tokens = s.tokens;
    args.out_features = s.out;
    args.in_features = s.in;
    args.x_scale = x_scale.data();
    args.w_scale = w_scale.data();
    args.scale_rows = s.rows;
  }

  DeviceArray<uint8_t> x, w;
  DeviceArray<float> x_scale, w_scale;
  DeviceArray<uint16_t> bias, out;
  MatmulArgs args;
};

// Empty, or the first value that is wrong. Hopper's sums of E4M3 products keep about 14 bits.
std::string judge(const Data& data, const DeviceData& device) {
  const std::vector<uint16_t> out = device.out.download();
  const double part = data.shape.dtype == DType::kBF16 ? 1e-6 : 3e-4;
  for (int64_t t = 0; t < data.shape.tokens; ++t) {
    for (int64_t o = 0; o < data.shape.out; ++o) {
      const auto [want, magnitude] = data.exact(t, o);
      const double got = bf16_to_float(out[static_cast<size_t>(t * data.shape.out + o)]);
      const double allowed = std::ldexp(std::abs(want), -8) * 1.001 + part * magnitude;
      if (!(std::abs(got - want) <= allowed)) {
        return octavo::format("out[{}, {}] is {}, not {}: at most {} off is right", t, o, got, want,
                              allowed);
      }
    }
  }
  return {};
}

class MatmulTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
    if (!cublaslt().ok()) GTEST_SKIP() << cublaslt().status().message();
    device_ = CudaDevice::open(0).value();
    stream_ = std::make_unique<Stream>();
    folder_ = fs::path(testing::TempDir()) / ("matmul_" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Matmul> open() {
    auto matmul = Matmul::create(*device_, folder_.string());
    EXPECT_TRUE(matmul.ok()) << matmul.status().message();
    return std::move(*matmul);
  }

  void expect_right(Matmul& matmul, const Shape& shape) {
    const Data data(shape);
    for (const bool measured : {false, true}) {
      const DeviceData device(data);
      check_cuda(cudaDeviceSynchronize(), "cudaMemset");
      const Status status = measured ? matmul.run(device.args, stream_->get())
                                     : matmul.run_unmeasured(device.args, stream_->get());
      ASSERT_TRUE(status.ok()) << status.message();
      stream_->synchronize();
      EXPECT_EQ(judge(data, device), "")
          << shape.tokens << " x " << shape.out << " x " << shape.in << " measured " << measured;
    }
  }

  bool has_fp8() const { return device_->properties().compute_capability >= 89; }

  CudaDevice* device_ = nullptr;
  fs::path folder_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(MatmulTest, Bfloat16) {
  const auto matmul = open();
  for (const bool bias : {false, true}) {
    for (const int64_t tokens : {1, 2, 7, 16, 33, 130}) {
      expect_right(*matmul, {tokens, 256, 512, DType::kBF16, bias});
    }
    expect_right(*matmul, {3, 8, 8, DType::kBF16, bias});
    expect_right(*matmul, {5, 40, 1048, DType::kBF16, bias});  // odd sizes
    expect_right(*matmul, {4, 128, 16384, DType::kBF16, bias});
  }
}

TEST_F(MatmulTest, Fp8) {
  if (!has_fp8()) GTEST_SKIP() << "this GPU has no E4M3";
  const auto matmul = open();
  for (const bool rows : {false, true}) {
    if (rows && device_->properties().compute_capability != 90) continue;
    for (const bool bias : {false, true}) {
      for (const int64_t tokens : {1, 2, 7, 16, 33, 130}) {
        expect_right(*matmul, {tokens, 256, 512, DType::kF8E4M3, bias, rows});
      }
      expect_right(*matmul, {4, 128, 14336, DType::kF8E4M3, bias, rows});
    }
  }
}

// Only the last values of k count: an algorithm that leaves them out gives 0.
TEST_F(MatmulTest, NoValueOfKIsLeftOut) {
  const auto matmul = open();
  for (const int64_t in : {4096 + 8, 4096 + 64, 8192 + 136, 14336 + 200, 28672 + 72}) {
    for (const int64_t tokens : {1, 16, 64, 200}) {
      Data data({tokens, 128, 256});
      DeviceData device(data);
      std::vector<uint16_t> x(static_cast<size_t>(tokens * in), float_to_bf16(1.0f));
      std::vector<uint16_t> w(static_cast<size_t>(128 * in), 0);
      for (int64_t o = 0; o < 128; ++o) {
        for (int64_t i = in - 8; i < in; ++i) {
          w[static_cast<size_t>(o * in + i)] = float_to_bf16(1.0f);
        }
      }
      const DeviceArray<uint16_t> device_x(x), device_w(w);
      device.args.x = device_x.data();
      device.args.w = device_w.data();
      device.args.in_features = in;
      const Status status = matmul->run(device.args, stream_->get());
      ASSERT_TRUE(status.ok()) << status.message();
      stream_->synchronize();
      const std::vector<uint16_t> out = device.out.download();
      EXPECT_EQ(out, std::vector<uint16_t>(out.size(), float_to_bf16(8.0f)))
          << tokens << " x " << in;
    }
  }
}

TEST_F(MatmulTest, MeasuresOnceForEachPowerOfTwo) {
  const auto run = [&](Matmul& matmul, int64_t tokens) {
    const DeviceData device(Data({tokens, 64, 128}));
    EXPECT_TRUE(matmul.run(device.args, stream_->get()).ok());
    stream_->synchronize();
  };
  {
    const auto matmul = open();
    for (const int64_t tokens : {5, 8, 6, 5}) run(*matmul, tokens);
    EXPECT_EQ(matmul->num_measured(), 1);
    run(*matmul, 9);
    EXPECT_EQ(matmul->num_measured(), 2);
  }
  const auto second = open();  // as a second start
  for (const int64_t tokens : {5, 9}) run(*second, tokens);
  EXPECT_EQ(second->num_measured(), 0);
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.is_regular_file()) std::ofstream(entry.path()) << "nonsense";
  }
  const auto third = open();
  run(*third, 5);
  EXPECT_EQ(third->num_measured(), 1);
}

TEST_F(MatmulTest, RunsInGraphs) {
  const auto matmul = open();
  const Data data({17, 256, 512, DType::kBF16, true});
  for (const bool known : {false, true}) {
    const DeviceData device(data);
    check_cuda(cudaDeviceSynchronize(), "cudaMemset");
    const int before = matmul->num_measured();
    const Graph graph = Graph::capture(stream_->get(), [&] {
      const Status status = matmul->run(device.args, stream_->get());
      EXPECT_TRUE(status.ok()) << status.message();
    });
    EXPECT_EQ(matmul->num_measured(), before);  // measuring would break the capture
    graph.launch(stream_->get());
    stream_->synchronize();
    EXPECT_EQ(judge(data, device), "");
    if (!known) {
      ASSERT_TRUE(matmul->run(device.args, stream_->get()).ok());
      stream_->synchronize();
    }
  }
  EXPECT_EQ(matmul->num_measured(), 1);
}

TEST_F(MatmulTest, RefusesWhatItCannotDo) {
  const auto matmul = open();
  const DeviceData device(Data({4, 64, 64}));
  const auto refused = [&](auto change, const char* part) {
    MatmulArgs args = device.args;
    change(args);
    const Status status = matmul->run(args, stream_->get());
    ASSERT_FALSE(status.ok()) << part;
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  refused([](MatmulArgs& a) { a.dtype = DType::kF16; }, "float16 4 x 64 x 64");
  refused([](MatmulArgs& a) { a.in_features = 60; }, "positive multiples of 8");
  refused([](MatmulArgs& a) { a.out_features = 0; }, "positive multiples of 8");
  refused([](MatmulArgs& a) { a.num_tokens = -1; }, "-1 x 64");
  refused([](MatmulArgs& a) { a.x = static_cast<const uint8_t*>(a.x) + 2; }, "aligned");
  if (has_fp8()) {
    refused(
        [](MatmulArgs& a) {
          a.dtype = DType::kF8E4M3;
          a.x_scale = nullptr;
        },
        "x_scale");
  }
  MatmulArgs none = device.args;
  none.num_tokens = 0;
  EXPECT_TRUE(matmul->run(none, stream_->get()).ok());
}

}  // namespace
}  // namespace octavo::backends::cuda
