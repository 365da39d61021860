#include "model/architectures.h"

#include "model/arch/llama.h"

namespace octavo::model {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", true, build_llama},
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture* find_gguf_architecture(std::string_view name) {
  for (const Architecture& row : kArchitectures) {
    if (row.gguf_name == name) return &row;
  }
  return nullptr;
}

const Architecture* find_hf_architecture(std::string_view name) {
  for (const Architecture& row : kArchitectures) {
    if (row.hf_name == name) return &row;
  }
  return nullptr;
}

}  // namespace octavo::model
