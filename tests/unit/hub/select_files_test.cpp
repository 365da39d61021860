#include "hub/select_files.h"

#include <gtest/gtest.h>

namespace octavo::hub {
namespace {

using Names = std::vector<std::string>;

TEST(SelectFiles, DefaultQuantisation) {
  EXPECT_EQ(*select_gguf(Names{"m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf"}, "", "r"),
            Names{"m-Q4_K_M.gguf"});
  EXPECT_EQ(*select_gguf(Names{"m-Q2_K.gguf", "m-Q8_0.gguf"}, "", "r"), Names{"m-Q8_0.gguf"});
  EXPECT_EQ(*select_gguf(Names{"imatrix.gguf", "mmproj-Q8_0.gguf", "z.gguf"}, "", "r"),
            Names{"z.gguf"});
}

TEST(SelectFiles, AQuantisationIsAWholePartOfTheName) {
  const Names names{"UD-Q4_K_XL/m-UD-Q4_K_XL.gguf", "m.Q4_K_M.gguf", "m-IQ4_XS.gguf", "m-f16.GGUF"};
  EXPECT_EQ(*select_gguf(names, "q4_k_m", "r"), Names{"m.Q4_K_M.gguf"});
  EXPECT_EQ(*select_gguf(names, "Q4_K_XL", "r"), Names{"UD-Q4_K_XL/m-UD-Q4_K_XL.gguf"});
  EXPECT_EQ(*select_gguf(names, "F16", "r"), Names{"m-f16.GGUF"});
  for (const char* wanted : {"Q4_K", "Q4", "4_XS", "gguf", "K_M.gguf"}) {
    EXPECT_EQ(select_gguf(names, wanted, "r").status().code(), StatusCode::kNotFound) << wanted;
  }
  const auto several = select_gguf(Names{"a-Q8_0.gguf", "b-Q8_0.gguf"}, "Q8_0", "r");
  EXPECT_EQ(several.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(several.status().message().find("a-Q8_0.gguf, b-Q8_0.gguf"), std::string::npos);
}

TEST(SelectFiles, SplitFilesComeWhole) {
  const Names parts{"d/m-Q8_0-00001-of-00003.gguf", "d/m-Q8_0-00002-of-00003.gguf",
                    "d/m-Q8_0-00003-of-00003.gguf"};
  EXPECT_EQ(*select_gguf(parts, "", "r"), parts);
  EXPECT_EQ(*select_gguf(parts, "q8_0", "r"), parts);
  EXPECT_EQ(*select_gguf(parts, "m-Q8_0-00002-of-00003.gguf", "r"), parts);
  EXPECT_FALSE(select_gguf(Names{parts[0], parts[2]}, "", "r").ok());
  // Numbers that make no sense leave a file that stands for itself.
  for (const char* odd : {"m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-0000x-of-00003.gguf",
                          "-00001-of-00001.gguf", "m-00001-of-00001.gguf"}) {
    EXPECT_EQ(*select_gguf(Names{odd}, "", "r"), Names{odd});
  }
}

TEST(SelectFiles, Folders) {
  const Names names{"a.jinja",   "config.json",       "merges.txt", "model.safetensors",
                    "notes.txt", "pytorch_model.bin", "sub/x.json", "tokenizer.model"};
  EXPECT_TRUE(has_safetensors(names));
  EXPECT_FALSE(has_safetensors(Names{"config.json", "other.safetensors"}));
  EXPECT_FALSE(has_safetensors(Names{"model.safetensors"}));
  EXPECT_EQ(select_description(names),
            (Names{"a.jinja", "config.json", "merges.txt", "tokenizer.model"}));
  EXPECT_EQ(*select_weights(names, "", "r"), Names{"model.safetensors"});
}

TEST(SelectFiles, IndexesAreChecked) {
  const Names names{"a.safetensors", "b.safetensors"};
  EXPECT_EQ(*select_weights(names,
                            R"({"weight_map": {"x": "b.safetensors", "y": "b.safetensors"}})", "r"),
            Names{"b.safetensors"});
  for (const char* index :
       {"{", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {}})",
        R"({"weight_map": {"x": 1}})", R"({"weight_map": {"x": "c.safetensors"}})",
        R"({"weight_map": {"x": "../a.safetensors"}})"}) {
    EXPECT_FALSE(select_weights(names, index, "r").ok()) << index;
  }
}

}  // namespace
}  // namespace octavo::hub
