#include "tests/gpu/kv_write_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backends/cuda/kv_write.h"
#include "base/format.h"
#include "tensor/float16.h"
#include "tests/gpu/device_array.h"
#include "tests/gpu/e4m3.h"

namespace octavo::backends::cuda {
namespace {

template <typename T>
size_t index(T value) {
  return static_cast<size_t>(value);
}

// Half the distance between neighbours at `value`, of a format with `mantissa` bits.
double half_step(double value, int mantissa, int least_exponent) {
  const int exponent = value == 0.0 ? least_exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, least_exponent) - mantissa - 1);
}

std::string judge_bf16(uint16_t got, double exact, double bound) {
  const double value = bf16_to_float(got);
  if (std::abs(value - exact) <= 1.001 * half_step(exact, 7, -126) + bound) return {};
  return octavo::format("{} for {}", value, exact);
}

// What `got` stands for must be the nearest that E4M3 has to exact / scale, at most its largest.
std::string judge_fp8(uint8_t got, double exact, double bound, double scale) {
  const double value = e4m3_to_double(got);
  const double want = std::clamp(exact / scale, -448.0, 448.0);
  const double allowed = 1.001 * half_step(want, 3, -6) + bound / scale;
  if (std::abs(value - want) <= allowed) return {};
  return octavo::format("{} for {} (scale {}, exact {})", value, want, scale, exact);
}

class Judge {
 public:
  Judge(const WriteInputs& in, const Written& got) : in_(in), c_(in.c), got_(got) {}

  // Empty, or the first thing that is wrong.
  std::string operator()() {
    for (int t = 0; t < c_.num_tokens; ++t) {
      if (std::string wrong = judge_token(t); !wrong.empty()) return wrong;
    }
    return judge_untouched();
  }

 private:
  std::string judge_token(int t) {
    const int64_t slot = in_.slot_mapping[index(t)];
    for (int head = 0; head < c_.num_heads; ++head) {
      for (int d = 0; d < c_.head_dim; ++d) {
        const auto at = index(t * in_.row + head * c_.head_dim + d);
        double bound = 0.0;
        const double exact = in_.rotated(t, head, d, bound);
        const bool changes = slot >= 0 && d < c_.rotary_dim;
        const std::string wrong = changes ? judge_bf16(got_.qkv[at], exact, bound)
                                  : got_.qkv[at] == in_.qkv[at] ? ""
                                                                : "changed";
        if (!wrong.empty()) return octavo::format("q[{}, {}, {}]: {}", t, head, d, wrong);
      }
    }
    for (int head = 0; slot >= 0 && head < c_.num_kv_heads; ++head) {
      const int64_t row = in_.cache_row(slot, head);
      written_.push_back(row);
      for (const bool is_value : {false, true}) {
        const std::string wrong = judge_row(t, head, row, is_value);
        if (!wrong.empty())
          return octavo::format("{}[{}, {}{}", is_value ? "v" : "k", t, head, wrong);
      }
    }
    return {};
  }

  std::string judge_row(int t, int head, int64_t row, bool is_value) {
    const int part_head = c_.num_heads + (is_value ? c_.num_kv_heads : 0) + head;
    const std::vector<uint8_t>& cache = is_value ? got_.v : got_.k;
    const std::vector<float>& scales = is_value ? got_.v_scale : got_.k_scale;
    std::vector<double> exact(index(c_.head_dim)), bounds(index(c_.head_dim), 0.0);
    double largest = 0.0, largest_bound = 0.0;
    for (int d = 0; d < c_.head_dim; ++d) {
      double& bound = bounds[index(d)];
      exact[index(d)] = is_value ? in_.input(t, part_head, d) : in_.rotated(t, part_head, d, bound);
      largest = std::max(largest, std::abs(exact[index(d)]));
      largest_bound = std::max(largest_bound, bound);
    }
    double scale = scales[0];
    if (c_.format == KvFormat::kFp8Head) scale = scales[index(head)];
    if (c_.format == KvFormat::kFp8TokenHead) {
      scale = scales[index(row)];
      const double want = std::max(largest / 448.0, std::ldexp(1.0, -126));
      if (!(std::abs(scale - want) <= 1e-6 * want + largest_bound / 448.0))
        return octavo::format("]: scale {} for {}", scale, want);
    }
    for (int d = 0; d < c_.head_dim; ++d) {
      const auto at = index(row * c_.head_dim + d);
      std::string wrong;
      if (c_.fp8()) {
        wrong = judge_fp8(cache[at], exact[index(d)], bounds[index(d)], scale);
      } else {
        uint16_t bits;
        std::memcpy(&bits, cache.data() + 2 * at, 2);
        wrong = judge_bf16(bits, exact[index(d)], bounds[index(d)]);
      }
      if (!wrong.empty()) return octavo::format(", {}]: {}", d, wrong);
    }
    return {};
  }

  // Rows that no token was written to are still poisoned.
  std::string judge_untouched() {
    std::sort(written_.begin(), written_.end());
    const auto row_bytes = index(c_.head_dim * (c_.fp8() ? 1 : 2));
    for (int64_t row = 0; row < in_.rows(); ++row) {
      if (std::binary_search(written_.begin(), written_.end(), row)) continue;
      for (const auto* cache : {&got_.k, &got_.v}) {
        const auto* from = cache->data() + index(row) * row_bytes;
        if (std::any_of(from, from + row_bytes, [](uint8_t b) { return b != 0xFF; }))
          return octavo::format("row {} of the cache was touched", row);
      }
      if (c_.format != KvFormat::kFp8TokenHead) continue;
      if (!std::isnan(got_.k_scale[index(row)]) || !std::isnan(got_.v_scale[index(row)]))
        return octavo::format("the scale of row {} was touched", row);
    }
    return {};
  }

  const WriteInputs& in_;
  const WriteCase& c_;
  const Written& got_;
  std::vector<int64_t> written_;
};

}  // namespace

std::string WriteCase::describe() const {
  return octavo::format(
      "tokens {} heads {}/{} dim {} rotary {} block {} format {} factor {} magnitude {} padding "
      "{}",
      num_tokens, num_heads, num_kv_heads, head_dim, rotary_dim, block_size,
      static_cast<int>(format), attention_factor, magnitude, num_padding);
}

WriteInputs::WriteInputs(const WriteCase& shape) : c(shape) {
  std::mt19937_64 rng(c.seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  row = (c.num_heads + 2 * c.num_kv_heads) * c.head_dim;
  for (int i = 0; i < c.num_tokens * row; ++i) {
    qkv.push_back(float_to_bf16(c.magnitude * normal(rng)));
  }
  for (int t = 0; t < c.num_tokens; ++t) {
    positions.push_back(static_cast<int32_t>(rng() % static_cast<uint64_t>(c.max_position)));
  }
  for (int i = 0; i < c.rotary_dim / 2; ++i) {
    inv_freq.push_back(
        std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(c.rotary_dim)));
  }
  num_blocks = 2 * (c.num_tokens / c.block_size + 2);
  std::vector<int64_t> slots(index(num_blocks * c.block_size));
  std::iota(slots.begin(), slots.end(), int64_t{0});
  std::shuffle(slots.begin(), slots.end(), rng);
  slots.resize(index(c.num_tokens));
  if (c.num_tokens > 0) slots[0] = num_blocks * c.block_size - 1;
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  while (slots.size() < index(c.num_tokens)) slots.push_back(-1);
  std::shuffle(slots.begin(), slots.end(), rng);
  for (int i = 0; i < c.num_padding; ++i) slots[index(i * 2 % c.num_tokens)] = -1;
  slot_mapping = slots;
  for (int i = 0; i < std::max(1, c.num_kv_heads); ++i) {
    k_scale.push_back(0.01f * static_cast<float>(1 + i));
    v_scale.push_back(0.03f * static_cast<float>(1 + i));
  }
}

double WriteInputs::input(int token, int part_head, int dim) const {
  return bf16_to_float(qkv[index(token * row + part_head * c.head_dim + dim)]);
}

double WriteInputs::rotated(int token, int part_head, int dim, double& bound) const {
  const int half = c.rotary_dim / 2;
  bound = 0.0;
  if (dim >= c.rotary_dim) return input(token, part_head, dim);
  const int pair = dim % half;
  const double x = input(token, part_head, pair), y = input(token, part_head, pair + half);
  const float angle = static_cast<float>(positions[index(token)]) * inv_freq[index(pair)];
  const double cosine = std::cos(static_cast<double>(angle)) * c.attention_factor;
  const double sine = std::sin(static_cast<double>(angle)) * c.attention_factor;
  bound = 1e-6 * (std::abs(x) + std::abs(y)) * std::abs(c.attention_factor);
  return dim < half ? x * cosine - y * sine : y * cosine + x * sine;
}

Written run_write_kv(const WriteInputs& in) {
  const WriteCase& c = in.c;
  const DeviceArray<uint16_t> qkv(in.qkv);
  const DeviceArray<int32_t> positions(in.positions);
  const DeviceArray<float> inv_freq(in.inv_freq);
  const DeviceArray<int64_t> slots(in.slot_mapping);
  const auto bytes = index(in.rows() * c.head_dim * (c.fp8() ? 1 : 2));
  DeviceArray<uint8_t> k(bytes), v(bytes);
  k.fill_bytes(0xFF);
  v.fill_bytes(0xFF);
  const bool by_token = c.format == KvFormat::kFp8TokenHead;
  DeviceArray<float> k_scale(in.k_scale), v_scale(in.v_scale);
  if (by_token) {
    k_scale = DeviceArray<float>(index(in.rows()));
    v_scale = DeviceArray<float>(index(in.rows()));
    k_scale.fill_bytes(0xFF);
    v_scale.fill_bytes(0xFF);
  }
  KvWriteArgs args;
  args.q = qkv.data();
  args.k = qkv.data() + c.num_heads * c.head_dim;
  args.v = qkv.data() + (c.num_heads + c.num_kv_heads) * c.head_dim;
  args.q_stride = args.k_stride = args.v_stride = in.row;
  args.num_tokens = c.num_tokens;
  args.num_heads = c.num_heads;
  args.num_kv_heads = c.num_kv_heads;
  args.head_dim = c.head_dim;
  args.k_cache = k.data();
  args.v_cache = v.data();
  args.kv_dtype = c.fp8() ? DType::kF8E4M3 : DType::kBF16;
  args.num_blocks = in.num_blocks;
  args.block_size = c.block_size;
  args.slot_mapping = slots.data();
  args.rotary_dim = c.rotary_dim;
  args.positions = positions.data();
  args.inv_freq = inv_freq.data();
  args.attention_factor = c.attention_factor;
  args.scale_kind = by_token                         ? KvScale::kTokenHead
                    : c.format == KvFormat::kFp8Head ? KvScale::kHead
                                                     : KvScale::kTensor;
  args.k_scale = k_scale.data();
  args.v_scale = v_scale.data();
  const Status status = write_kv(args, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  check_cuda(cudaDeviceSynchronize(), "write_kv");
  return {qkv.download(), k.download(), v.download(), k_scale.download(), v_scale.download()};
}

std::string judge_write_kv(const WriteInputs& inputs, const Written& got) {
  return Judge(inputs, got)();
}

}  // namespace octavo::backends::cuda
