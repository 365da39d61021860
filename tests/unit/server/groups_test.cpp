// Which group a request is in, and what the file of groups may say.
#include "server/groups.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/format.h"

namespace octavo::server {
namespace {

Groups made_of(const std::vector<std::pair<std::string, double>>& names_and_weights,
               const std::string& salt = "") {
  GroupsConfig config;
  config.salt = salt;
  for (const auto& [name, weight] : names_and_weights) config.groups.push_back({name, weight, {}});
  return Groups(config);
}

std::vector<int> counts(const Groups& groups, int num_keys) {
  std::vector<int> counts(groups.size());
  for (int i = 0; i < num_keys; ++i) ++counts[groups.choose(format("user-{}", i))];
  return counts;
}

// Made with Python's integers: FNV-1a, then fmix64.
TEST(Groups, HashIsTheDocumentedOne) {
  EXPECT_EQ(group_hash("", "a", "7"), 0x770adead18ac973e);
  EXPECT_EQ(group_hash("salt", "control", "user-1"), 0xb2ae009781fff5b8);
}

TEST(Groups, SharesFollowWeights) {
  constexpr int kNumKeys = 50000;
  // Chi-square of three degrees of freedom: beyond this once in 100,000 hashes.
  constexpr double kMost = 25.9;
  for (const char* salt : {"", "2026-11", "another"}) {
    const std::vector<double> weights{5, 3, 1.5, 0.5};
    const Groups groups = made_of({{"a", 5}, {"b", 3}, {"c", 1.5}, {"d", 0.5}}, salt);
    const std::vector<int> found = counts(groups, kNumKeys);
    double chi_square = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double expected = kNumKeys * weights[i] / 10;
      chi_square += (found[i] - expected) * (found[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, kMost) << salt;
  }
}

TEST(Groups, AKeyStaysAndOnlyTheRaisedGroupGains) {
  Groups groups = made_of({{"a", 1}, {"b", 1}, {"c", 1}});
  std::vector<size_t> before;
  for (int i = 0; i < 5000; ++i) before.push_back(groups.choose(format("{}", i)));
  GroupsConfig raised;
  raised.groups = {{"a", 1, {}}, {"b", 4, {}}, {"c", 1, {}}};
  ASSERT_TRUE(groups.set_weights(raised).ok());
  int moved = 0;
  for (int i = 0; i < 5000; ++i) {
    const size_t after = groups.choose(format("{}", i));
    EXPECT_EQ(after, groups.choose(format("{}", i)));
    if (after == before[static_cast<size_t>(i)]) continue;
    EXPECT_EQ(after, 1U);
    ++moved;
  }
  EXPECT_NEAR(moved, 5000 * (4.0 / 6 - 1.0 / 3), 200);
}

TEST(Groups, ASaltMixesAnewAndIndependently) {
  const Groups one = made_of({{"a", 1}, {"b", 1}}, "one");
  const Groups two = made_of({{"a", 1}, {"b", 1}}, "two");
  int same = 0;
  for (int i = 0; i < 10000; ++i) {
    if (one.choose(format("{}", i)) == two.choose(format("{}", i))) ++same;
  }
  EXPECT_NEAR(same, 5000, 250);
}

TEST(Groups, AWeightOfZeroDrains) {
  Groups groups = made_of({{"a", 1}, {"b", 1}});
  GroupsConfig drained;
  drained.groups = {{"a", 1, {}}, {"b", 0, {}}};
  ASSERT_TRUE(groups.set_weights(drained).ok());
  EXPECT_EQ(counts(groups, 1000), (std::vector<int>{1000, 0}));
  EXPECT_EQ(*groups.find("b"), 1U);
}

TEST(Groups, OnlyWeightsCanChange) {
  const auto parse = [](const char* text) {
    return *parse_groups(*parse_json(text, "t"), "ab.yaml");
  };
  Groups groups(parse(R"({"groups": [{"name": "a", "defaults": {"top_k": 5}}, {"name": "b"}]})"));
  for (const char* other :
       {R"({"groups": [{"name": "a", "defaults": {"top_k": 6}}, {"name": "b"}]})",
        R"({"groups": [{"name": "a", "defaults": {"top_k": 5}}, {"name": "c"}]})",
        R"({"groups": [{"name": "a", "defaults": {"top_k": 5}}]})",
        R"({"salt": "x", "groups": [{"name": "a", "defaults": {"top_k": 5}}, {"name": "b"}]})"}) {
    EXPECT_FALSE(groups.set_weights(parse(other)).ok()) << other;
  }
  EXPECT_EQ(groups.weights(), (std::vector<double>{1, 1}));
}

TEST(Groups, ClientsNamesAreNotRepeated) {
  const Groups groups = made_of({{"a", 1}, {"b", 1}});
  const auto found = groups.find("<script>\r\n");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().message(), "X-Octavo-Group must be one of the groups a, b");
}

TEST(Groups, DefaultsFillWhatARequestLeavesOpen) {
  GroupsConfig config;
  config.groups.push_back({"a",
                           1,
                           {{"temperature", 0.5},
                            {"top_k", 9},
                            {"chat_template_kwargs", {{"x", 1}, {"y", 2}}},
                            {"reasoning_effort", "low"},
                            {"cache_salt", "a"}}});
  const Groups groups(config);
  JsonObject chat{{"messages", JsonArray()},
                  {"temperature", 1},
                  {"top_k", nullptr},
                  {"chat_template_kwargs", {{"y", 3}}}};
  groups.add_defaults(chat, 0);
  EXPECT_EQ(chat, (JsonObject{{"messages", JsonArray()},
                              {"temperature", 1},
                              {"top_k", 9},
                              {"chat_template_kwargs", {{"y", 3}, {"x", 1}}},
                              {"reasoning_effort", "low"},
                              {"cache_salt", "a"}}));
  JsonObject completion{{"prompt", "x"}};
  groups.add_defaults(completion, 0);
  EXPECT_EQ(completion,
            (JsonObject{{"prompt", "x"}, {"temperature", 0.5}, {"top_k", 9}, {"cache_salt", "a"}}));
  JsonObject embedding{{"input", "x"}};
  groups.add_defaults(embedding, 0);
  EXPECT_EQ(embedding, (JsonObject{{"input", "x"}, {"cache_salt", "a"}}));
}

TEST(GroupsConfig, ErrorsNameFileAndKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "the file must be a map"},
      {"{}", "groups must be a list"},
      {R"({"groups": []})", "groups must be a list"},
      {R"({"groups": {"a": 1}})", "groups must be a list"},
      {R"({"group": []})", "'group' is not known"},
      {R"({"groups": [3]})", "groups[0] must be a map"},
      {R"({"groups": [{"weight": 1}]})", "groups[0].name"},
      {R"({"groups": [{"name": "a b"}]})", "groups[0].name"},
      {R"({"groups": [{"name": "a\nb"}]})", "groups[0].name"},
      {R"({"groups": [{"name": 3}]})", "groups[0].name"},
      {R"({"groups": [{"name": "a"}, {"name": "a"}]})", "groups[1].name 'a' is taken twice"},
      {R"({"groups": [{"name": "a", "weight": -1}]})", "groups[0].weight"},
      {R"({"groups": [{"name": "a", "weight": "1"}]})", "groups[0].weight"},
      {R"({"groups": [{"name": "a", "weight": 0}]})", "all weights are 0"},
      {R"({"groups": [{"name": "a", "wieght": 1}]})", "groups[0]: 'wieght'"},
      {R"({"groups": [{"name": "a", "defaults": []}]})", "groups[0].defaults must be a map"},
      {R"({"groups": [{"name": "a", "defaults": {"model": "x"}}]})", "'model'"},
      {R"({"groups": [{"name": "a", "defaults": {"temperature": "hot"}}]})", "temperature"},
      {R"({"groups": [{"name": "a", "defaults": {"temperature": -1}}]})", "temperature"},
      {R"({"groups": [{"name": "a", "defaults": {"chat_template": 3}}]})", "chat_template"},
      {R"({"groups": [{"name": "a", "defaults": {"cache_salt": ""}}]})", "cache_salt"},
      {R"({"groups": [{"name": "a", "defaults": {"priority": 1.5}}]})", "priority"},
      {R"({"groups": [{"name": "a", "defaults": {"chat_template_kwargs": 1}}]})",
       "chat_template_kwargs"},
      {R"({"salt": 3, "groups": [{"name": "a"}]})", "salt"},
      {R"({"window_s": 1, "groups": [{"name": "a"}]})", "window_s"},
  };
  for (const auto& [text, part] : cases) {
    const auto config = parse_groups(*parse_json(text, "t"), "ab.yaml");
    ASSERT_FALSE(config.ok()) << text;
    const std::string message(config.status().message());
    EXPECT_TRUE(message.starts_with("ab.yaml: ")) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_TRUE(parse_groups(*parse_json(R"({"groups": [
      {"name": "a", "defaults": {"chat_template": null, "top_k": null}}]})",
                                       "t"),
                           "ab.yaml")
                  ->groups[0]
                  .defaults.empty());
  std::string many;
  for (int i = 0; i < 33; ++i) many += format("{}{{\"name\": \"g{}\"}}", i > 0 ? "," : "", i);
  EXPECT_FALSE(parse_groups(*parse_json("{\"groups\": [" + many + "]}", "t"), "ab.yaml").ok());
}

}  // namespace
}  // namespace octavo::server
