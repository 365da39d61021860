#include "backends/attention_choice.h"

#include <algorithm>
#include <bit>

#include "base/format.h"

namespace octavo::backends {
namespace {

// An implementation, and what it needs on a GPU. The CPU has a single one, over the paged cache; it
// answers to every name that promises no particular GPU kernel.
struct Implementation {
  std::string_view name;
  bool on_cpu;
  const char* gpu_lack;  // why no GPU of this build can run it whole, or null
  int least_sm;
  bool only_sm;                // later GPUs lack the instructions
  std::vector<int> head_dims;  // empty: all up to max_head_dim
  int max_head_dim;
  std::string_view gpu_reason;
  bool any_block_size = false;  // else powers of two from 16 to 256
};

const std::vector<Implementation>& table() {
  static const std::vector<Implementation> rows = {
      {"flash_attention_3", false, nullptr, 90, true, {64, 128, 256}, 256, "sm_90a"},
      {"flash_attention_2", false, nullptr, 80, false, {64, 128, 256}, 256, "sm_80 and later"},
      {"paged",
       true,
       "GPUs read the paged cache through the flash_attention kernels",
       0,
       false,
       {},
       0,
       ""},
      {"sdpa", true, "there are no GPU kernels of this name", 0, false, {}, 0, ""},
      {"eager", true, nullptr, 80, false, {}, 256, "the plain fp32 kernel: exact, slow", true},
  };
  return rows;
}

// Empty where it can run.
std::string why_not(const Implementation& row, const AttentionFacts& facts) {
  if (facts.compute_capability == 0) {
    return row.on_cpu ? "" : format("the backend '{}' has no GPU", facts.backend);
  }
  if (row.gpu_lack != nullptr) return row.gpu_lack;
  if (row.only_sm ? facts.compute_capability != row.least_sm
                  : facts.compute_capability < row.least_sm) {
    return format("this GPU is sm_{}, it needs sm_{}{}", facts.compute_capability, row.least_sm,
                  row.only_sm ? "" : " or later");
  }
  const bool dim_fits =
      row.head_dims.empty() ||
      std::find(row.head_dims.begin(), row.head_dims.end(), facts.head_dim) != row.head_dims.end();
  if (facts.head_dim != 0 && (!dim_fits || facts.head_dim > row.max_head_dim)) {
    return format("it has no kernel for a head_dim of {}", facts.head_dim);
  }
  const auto block_size = static_cast<unsigned>(facts.block_size);
  const bool block_fits = std::has_single_bit(block_size) && block_size >= 16 && block_size <= 256;
  if (facts.block_size != 0 && !row.any_block_size && !block_fits) {
    return format("it has no kernel for a block_size of {}", facts.block_size);
  }
  return "";
}

AttentionChoice on_gpu(const Implementation& row) {
  return {std::string(row.name), std::string(row.gpu_reason)};
}

AttentionChoice on_cpu(std::string_view requested, const AttentionFacts& facts) {
  const std::string only = format("the one implementation of the backend '{}'", facts.backend);
  const bool by_name = requested == "auto" || requested == "paged";
  return {"paged", by_name ? only : format("{}: {}", requested, only)};
}

Result<AttentionChoice> choose_best(const AttentionFacts& facts) {
  std::string passed_over;
  for (const Implementation& row : table()) {
    const std::string lack = why_not(row, facts);
    if (!lack.empty()) {
      passed_over += format("{}{}: {}", passed_over.empty() ? "" : "; ", row.name, lack);
      continue;
    }
    AttentionChoice choice = on_gpu(row);
    if (!passed_over.empty()) choice.reason += format("; {}", passed_over);
    return choice;
  }
  return unsupported(format("attention backend 'auto': none can run here; {}", passed_over));
}

}  // namespace

std::string describe(const AttentionChoice& choice) {
  return format("{} ({})", choice.name, choice.reason);
}

std::vector<std::string> attention_names() {
  std::vector<std::string> names = {"auto"};
  for (const Implementation& row : table()) names.emplace_back(row.name);
  return names;
}

Result<AttentionChoice> choose_attention(std::string_view requested, const AttentionFacts& facts) {
  const bool cpu = facts.compute_capability == 0;
  if (requested == "auto") {
    if (cpu) return on_cpu(requested, facts);
    return choose_best(facts);
  }
  std::string names = "auto";
  for (const Implementation& row : table()) {
    names += format(", {}", row.name);
    if (row.name != requested) continue;
    const std::string lack = why_not(row, facts);
    if (!lack.empty()) {
      return unsupported(format("attention backend '{}' cannot run: {}", requested, lack));
    }
    return cpu ? on_cpu(requested, facts) : on_gpu(row);
  }
  return invalid_argument(
      format("no attention backend is called '{}'; there are: {}", requested, names));
}

}  // namespace octavo::backends
