// docs/models.md lists what the table of architectures holds: the test writes the list from the
// table and compares. Where it fails, its message is the text to put into the page.
#include <gtest/gtest.h>

#include "base/format.h"
#include "formats/ggml_types.h"
#include "formats/hf_checkpoint.h"
#include "model/architectures.h"
#include "ops/decode_row.h"

namespace octavo::model {
namespace {

std::string differences(const Traits& traits) {
  std::string list;
  const auto say = [&](bool holds, std::string_view what) {
    if (holds) list += format("{}{}", list.empty() ? "" : ", ", what);
  };
  say(traits.moe == MoeKind::kMixtral, "experts");
  say(traits.moe == MoeKind::kQwen3, "experts, with dense layers between");
  say(traits.moe == MoeKind::kLlama4,
      "experts and a shared one, chunked attention, layers without rotation, query temperature");
  say(traits.qk_norm == ops::QkNorm::kPerHead, "q/k norms by head");
  say(traits.qk_norm == ops::QkNorm::kAllHeads, "q/k norms over all heads");
  say(traits.norms == NormPlacement::kAfter, "norms after the blocks");
  say(traits.norms == NormPlacement::kAround, "norms around the blocks");
  say(traits.windows == WindowRule::kAll, "sliding window");
  say(traits.windows == WindowRule::kFromLayer, "sliding window in the last layers");
  say(traits.windows == WindowRule::kAlternating,
      format("all but every {} layer local", traits.local_period == 2 ? "second" : "sixth"));
  say(traits.local_rope, "which rotate by another base");
  say(traits.activation == ops::Activation::kGeluTanh, "GELU");
  say(traits.scaled_embedding, "scaled embedding, capped logits");
  say(traits.capped_scores, "capped scores");
  say(traits.qkv_bias, "biases of q, k and v");
  say(traits.fused_projections, "fused projections");
  say(traits.partial_rotary, "partial rotation, longrope");
  say(traits.adjacent_pairs, "rotation of adjacent pairs");
  return list.empty() ? "–" : list;
}

TEST(ModelsDoc, ListsTheTableOfArchitectures) {
  std::string expected =
      "| config.json | GGUF | models | differs from Llama in |\n|---|---|---|---|\n";
  for (const Architecture& row : architectures()) {
    const std::string gguf = row.gguf_name.empty() ? "–" : format("`{}`", row.gguf_name);
    expected +=
        format("| `{}` | {} | {} | {} |\n", row.hf_name, gguf, row.models, differences(row.traits));
  }
  const std::string path = OCTAVO_TEST_DATA "/../../docs/models.md";
  const std::string page = formats::read_text_file(path).value();
  EXPECT_NE(page.find(expected), std::string::npos) << path << " lacks:\n" << expected;
}

TEST(ModelsDoc, ListsTheBlockTypes) {
  const std::string page =
      formats::read_text_file(OCTAVO_TEST_DATA "/../../docs/models.md").value();
  const size_t begin = page.find("| weights |");
  const std::string row = page.substr(begin, page.find('\n', begin) - begin);
  const auto lists = [&](std::string_view name) {
    for (size_t at = 0; (at = row.find(name, at)) != std::string::npos; at += name.size()) {
      const char next = row[at + name.size()];
      if (row[at - 1] == ' ' && (next == ',' || next == ';' || next == ' ')) return true;
    }
    return false;
  };
  for (const formats::GgmlType& type : formats::ggml_types()) {
    const bool runs = type.dtype && ops::decode_row_fn(*type.dtype) != nullptr;
    EXPECT_EQ(lists(type.name), runs) << type.name;
  }
}

}  // namespace
}  // namespace octavo::model
