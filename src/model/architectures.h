// The table of architectures: by which names checkpoints call them, and how they differ.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "model/traits.h"

namespace octavo::model {

struct Architecture {
  std::string_view gguf_name;  // general.architecture; "": no GGUF file has it
  std::string_view hf_name;    // config.json "architectures"
  std::string_view models;     // for people: whose it is
  Traits traits;
  // A model that also sees: its text part's keys are under text_config, its tensors begin with
  // text_prefix; those that begin with one of `skipped` are left alone.
  std::string_view text_prefix = {};
  std::array<std::string_view, 2> skipped = {};
};

std::span<const Architecture> architectures();

// A GGUF name may stand for several rows: with and without experts.
const Architecture* find_gguf_architecture(std::string_view name, bool has_experts);
const Architecture* find_hf_architecture(std::string_view name);

}  // namespace octavo::model
