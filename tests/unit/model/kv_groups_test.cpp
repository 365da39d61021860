#include "model/kv_groups.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "model/config.h"

namespace octavo::model {
namespace {

constexpr int64_t kLong = 1 << 20;

const LayerConfig kFull;
const LayerConfig kWindow{.sliding_window = 512};
const LayerConfig kChunk{.attention_chunk_size = 8192};

// `pattern`, over and over.
ModelConfig config_of(int64_t num_layers, const std::vector<LayerConfig>& pattern) {
  ModelConfig config;
  config.num_hidden_layers = num_layers;
  for (int64_t i = 0; i < num_layers; ++i) config.layers.push_back(pattern[i % pattern.size()]);
  return config;
}

const std::vector<LayerConfig> kGemma3 = {kWindow, kWindow, kWindow, kWindow, kWindow, kFull};

void expect_sound(const ModelConfig& config, const KvGroups& groups) {
  ASSERT_EQ(groups.places.size(), config.layers.size());
  std::set<std::pair<int32_t, int32_t>> taken;
  std::vector<int64_t> sizes(groups.spans.size(), 0);
  for (size_t i = 0; i < groups.places.size(); ++i) {
    const auto [group, slot] = groups.places[i];
    ASSERT_TRUE(group >= 0 && group < groups.num_groups());
    ASSERT_TRUE(slot >= 0 && slot < groups.layers_per_block);
    EXPECT_TRUE(taken.emplace(group, slot).second) << "layer " << i << " has another's place";
    EXPECT_EQ(groups.spans[group].window, config.layers[i].sliding_window);
    EXPECT_EQ(groups.spans[group].chunk, config.layers[i].attention_chunk_size);
    ++sizes[group];
  }
  // Of the groups of a kind only one is not full.
  std::map<std::pair<int64_t, int64_t>, int> partial;
  for (size_t group = 0; group < sizes.size(); ++group) {
    EXPECT_GT(sizes[group], 0);
    const AttentionSpan& span = groups.spans[group];
    if (sizes[group] < groups.layers_per_block) ++partial[{span.window, span.chunk}];
  }
  for (const auto& [kind, count] : partial) EXPECT_EQ(count, 1);
}

TEST(KvGroups, LayersOfOneKindAreOneGroup) {
  for (const LayerConfig& layer : {kFull, kWindow, kChunk}) {
    const ModelConfig config = config_of(30, {layer});
    const KvGroups groups = group_layers(config, kLong);
    EXPECT_EQ(groups.num_groups(), 1);
    EXPECT_EQ(groups.layers_per_block, 30);
    expect_sound(config, groups);
  }
}

TEST(KvGroups, BlocksAreAsLargeAsTheSmallestKind) {
  struct Expected {
    int64_t num_layers;
    std::vector<LayerConfig> pattern;
    int64_t layers_per_block;
    int64_t num_groups;
  };
  const Expected cases[] = {
      {18, kGemma3, 3, 6},                           // Gemma 3 270M
      {62, kGemma3, 10, 7},                          // 27B: 52 and 10
      {26, {kWindow, kFull}, 13, 2},                 // Gemma 2 2B
      {48, {kChunk, kChunk, kChunk, kFull}, 12, 4},  // Llama 4 Scout
      {3, {kWindow, kChunk, kFull}, 1, 3},
  };
  for (const Expected& expected : cases) {
    const ModelConfig config = config_of(expected.num_layers, expected.pattern);
    const KvGroups groups = group_layers(config, kLong);
    EXPECT_EQ(groups.layers_per_block, expected.layers_per_block) << expected.num_layers;
    EXPECT_EQ(groups.num_groups(), expected.num_groups) << expected.num_layers;
    expect_sound(config, groups);
  }
}

TEST(KvGroups, AnOddLayerDoesNotMakeManyGroups) {
  ModelConfig config = config_of(64, {kFull});
  config.layers[9] = kWindow;
  const KvGroups groups = group_layers(config, kLong);
  EXPECT_EQ(groups.layers_per_block, 8);
  EXPECT_EQ(groups.num_groups(), 9);
  expect_sound(config, groups);
}

TEST(KvGroups, AWindowOfTheWholeContextIsNone) {
  const ModelConfig config = config_of(18, kGemma3);
  EXPECT_EQ(group_layers(config, 513).num_groups(), 6);
  const KvGroups groups = group_layers(config, 512);
  EXPECT_EQ(groups.num_groups(), 1);
  EXPECT_FALSE(groups.spans[0].bounded());
}

TEST(KvGroups, OneGroupKeepsTheOrderOfLayers) {
  const KvGroups groups = one_group(config_of(18, kGemma3));
  EXPECT_EQ(groups.layers_per_block, 18);
  ASSERT_EQ(groups.num_groups(), 1);
  EXPECT_FALSE(groups.spans[0].bounded());
  for (int32_t i = 0; i < 18; ++i) {
    EXPECT_EQ(groups.places[i].group, 0);
    EXPECT_EQ(groups.places[i].slot, i);
  }
}

}  // namespace
}  // namespace octavo::model
