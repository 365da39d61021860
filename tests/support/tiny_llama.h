// A small Llama with random weights as a GGUF file: large enough for every code path, small enough
// to make anew in each test.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace octavo::testing {

struct TinyLlama {
  int64_t num_hidden_layers = 2;
  int64_t hidden_size = 64;
  int64_t intermediate_size = 96;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 2;
  int64_t head_dim = 16;
  int64_t vocab_size = 101;
  int64_t context_length = 1024;
  DType dtype = DType::kQ8_0;  // of matrices; vectors are kF32
  bool tied = true;
  bool biases = false;
  bool rope_factors = false;
  uint64_t seed = 1;

  // Called with the metadata as u32, f32 and strings before it is written; may change it.
  std::function<void(JsonObject&)> edit_metadata;
  // Called for every tensor before it is declared; false leaves it out. May change name and shape.
  std::function<bool(std::string& name, DType& dtype, Shape& shape)> edit_tensor;
};

// Writes the file; ends the test process on failure.
void write_tiny_llama(const std::string& path, const TinyLlama& spec);

}  // namespace octavo::testing
