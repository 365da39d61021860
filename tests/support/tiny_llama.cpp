#include "support/tiny_llama.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "base/rng.h"
#include "formats/gguf_writer.h"
#include "support/random_blocks.h"
#include "tensor/float16.h"

namespace octavo::testing {
namespace {

struct Declared {
  std::string name;
  DType dtype;
  Shape shape;
};

std::vector<Declared> declare(const TinyLlama& m) {
  std::vector<Declared> list;
  const int64_t q = m.num_attention_heads * m.head_dim;
  const int64_t kv = m.num_key_value_heads * m.head_dim;
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols) {
    list.push_back({name + ".weight", m.dtype, {rows, cols}});
    if (m.biases && name.starts_with("blk")) list.push_back({name + ".bias", DType::kF32, {rows}});
  };
  const auto norm = [&](const std::string& name) {
    list.push_back({name + ".weight", DType::kF32, {m.hidden_size}});
  };
  matrix("token_embd", m.vocab_size, m.hidden_size);
  for (int64_t i = 0; i < m.num_hidden_layers; ++i) {
    const std::string at = format("blk.{}.", i);
    norm(at + "attn_norm");
    matrix(at + "attn_q", q, m.hidden_size);
    matrix(at + "attn_k", kv, m.hidden_size);
    matrix(at + "attn_v", kv, m.hidden_size);
    matrix(at + "attn_output", m.hidden_size, q);
    norm(at + "ffn_norm");
    matrix(at + "ffn_gate", m.intermediate_size, m.hidden_size);
    matrix(at + "ffn_up", m.intermediate_size, m.hidden_size);
    matrix(at + "ffn_down", m.hidden_size, m.intermediate_size);
  }
  norm("output_norm");
  if (!m.tied) matrix("output", m.vocab_size, m.hidden_size);
  if (m.rope_factors) list.push_back({"rope_freqs.weight", DType::kF32, {m.head_dim / 2}});
  return list;
}

// Values of about 1/sqrt(hidden_size) for matrices, about 1 for norms and frequency factors.
std::vector<std::byte> random_data(const Declared& tensor, Rng& rng) {
  const int64_t count = shape_count(tensor.shape);
  std::vector<std::byte> bytes(dtype_bytes(tensor.dtype, count));
  const bool matrix = tensor.shape.size() == 2;
  const bool bias = tensor.name.ends_with(".bias");
  const auto value = [&] {
    const auto uniform = static_cast<float>(2 * rng.next_double() - 1);
    return matrix || bias ? uniform / std::sqrt(static_cast<float>(tensor.shape.back()))
                          : 1.5f + uniform / 4;
  };
  if (!dtype_traits(tensor.dtype).quantized) {
    for (int64_t i = 0; i < count; ++i) {
      const float x = value();
      const uint16_t half = tensor.dtype == DType::kBF16 ? float_to_bf16(x) : float_to_fp16(x);
      if (tensor.dtype == DType::kF32) {
        std::memcpy(&bytes[i * 4], &x, 4);
      } else {
        std::memcpy(&bytes[i * 2], &half, 2);
      }
    }
    return bytes;
  }
  const float magnitude = 1 / std::sqrt(static_cast<float>(tensor.shape.back()));
  for (size_t at = 0; at < bytes.size(); at += dtype_traits(tensor.dtype).block_bytes) {
    fill_random_block(rng, tensor.dtype, magnitude, &bytes[at]);
  }
  return bytes;
}

formats::GgufType type_of(const Json& value) {
  if (value.is_string()) return {formats::GgufKind::kString};
  if (value.is_double()) return {formats::GgufKind::kF32};
  return {formats::GgufKind::kU32};
}

void expect_ok(const Status& status) {
  if (status.ok()) return;
  ADD_FAILURE() << status.message();
  std::abort();
}

}  // namespace

void write_tiny_llama(const std::string& path, const TinyLlama& m) {
  JsonObject metadata{{"general.architecture", "llama"},
                      {"llama.block_count", m.num_hidden_layers},
                      {"llama.embedding_length", m.hidden_size},
                      {"llama.feed_forward_length", m.intermediate_size},
                      {"llama.attention.head_count", m.num_attention_heads},
                      {"llama.attention.head_count_kv", m.num_key_value_heads},
                      {"llama.attention.key_length", m.head_dim},
                      {"llama.attention.value_length", m.head_dim},
                      {"llama.attention.layer_norm_rms_epsilon", 1e-5},
                      {"llama.rope.freq_base", 10000.0},
                      {"llama.context_length", m.context_length}};
  if (m.edit_metadata) m.edit_metadata(metadata);
  formats::GgufWriter writer;
  for (const auto& item : metadata) {
    expect_ok(writer.add_metadata({item.key().data(), item.key().size()}, type_of(item.value()),
                                  item.value()));
  }
  std::vector<Declared> tensors;
  for (Declared& tensor : declare(m)) {
    if (m.edit_tensor && !m.edit_tensor(tensor.name, tensor.dtype, tensor.shape)) continue;
    expect_ok(writer.add_tensor(tensor.name, tensor.dtype, tensor.shape));
    tensors.push_back(std::move(tensor));
  }
  expect_ok(writer.open(path));
  Rng rng(m.seed);
  for (const Declared& tensor : tensors) expect_ok(writer.write(random_data(tensor, rng)));
  expect_ok(writer.close());
}

}  // namespace octavo::testing
