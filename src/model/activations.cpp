#include "model/activations.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace octavo::model {
namespace {

// Hands out consecutive pieces of a buffer; without one it only counts.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}

  ops::Mat matrix(DType dtype, int64_t rows, int64_t cols) {
    return {take_bytes(dtype_bytes(dtype, rows * cols)), dtype, rows, cols};
  }

  template <typename T>
  T* take(int64_t count) {
    return reinterpret_cast<T*>(take_bytes(count * static_cast<int64_t>(sizeof(T))));
  }

  int64_t used_bytes() const { return used_bytes_; }

 private:
  std::byte* take_bytes(int64_t bytes) {
    constexpr int64_t kAlignment = 64;
    std::byte* result = memory_ == nullptr ? nullptr : memory_ + used_bytes_;
    used_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return result;
  }

  std::byte* memory_;
  int64_t used_bytes_ = 0;
};

void carve(Carver& carver, const ModelConfig& config, const Limits& limits, DType dtype,
           Activations& a) {
  const int64_t rows = limits.max_num_batched_tokens;
  const int64_t q_dim = config.num_attention_heads * config.head_dim;
  const int64_t kv_dim = config.num_key_value_heads * config.head_dim;
  const bool has_dense = std::any_of(config.layers.begin(), config.layers.end(),
                                     [](const LayerConfig& layer) { return !layer.moe; });
  const int64_t inter =
      std::max(has_dense ? config.intermediate_size : 0, config.moe.shared_intermediate_size);
  a.x = carver.matrix(DType::kF32, rows, config.hidden_size);
  a.normed = carver.matrix(dtype, rows, config.hidden_size);
  a.q = carver.matrix(dtype, rows, q_dim);
  a.k = carver.matrix(dtype, rows, kv_dim);
  a.v = carver.matrix(dtype, rows, kv_dim);
  a.attention = carver.matrix(dtype, rows, q_dim);
  a.gate = carver.matrix(dtype, rows, inter);
  a.up = carver.matrix(dtype, rows, inter);
  a.head = carver.matrix(dtype, limits.max_logit_rows, config.hidden_size);
  const ops::Routing& routing = config.moe.routing;
  const int64_t slots = rows * routing.top_k;
  if (slots == 0) return;
  a.router_logits = carver.matrix(DType::kF32, rows, routing.num_experts);
  a.expert_x = carver.matrix(dtype, slots, config.hidden_size);
  a.expert_gate = carver.matrix(dtype, slots, config.moe.intermediate_size);
  a.expert_up = carver.matrix(dtype, slots, config.moe.intermediate_size);
  a.plan = {carver.take<int32_t>(routing.num_experts + 1), carver.take<int32_t>(slots),
            carver.take<float>(slots), carver.take<int32_t>(slots)};
}

}  // namespace

Result<Activations> Activations::create(Device& device, const ModelConfig& config,
                                        const Limits& limits, DType dtype) {
  Activations result;
  Carver counter(nullptr);
  carve(counter, config, limits, dtype, result);
  result.memory = OCTAVO_TRY(device.allocate(
      counter.used_bytes(), format("activations of {} tokens", limits.max_num_batched_tokens)));
  Carver carver(result.memory.as<std::byte>());
  carve(carver, config, limits, dtype, result);
  return result;
}

}  // namespace octavo::model
