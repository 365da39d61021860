// Reading valid files: values and tensors of every type against what another implementation sees.
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include "formats/ggml_types.h"
#include "gguf_bytes.h"

namespace octavo::formats {
namespace {

const std::string kGolden = OCTAVO_TEST_DATA "/gguf/all_types";

// Integers compare by value, whichever of int64 and uint64 holds them.
void expect_equal(const Json& actual, const Json& expected) {
  if (expected.is_double()) {
    ASSERT_TRUE(actual.is_double());
    EXPECT_EQ(actual.get_double(), expected.get_double());
  } else {
    EXPECT_EQ(actual, expected) << dump_json(actual) << " " << dump_json(expected);
  }
}

TEST(Gguf, ReadsWhatThePythonPackageReads) {
  const auto golden = parse_json(read_file(kGolden + ".json"), kGolden);
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  const auto opened = open_checkpoint(kGolden + ".gguf");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const auto& checkpoint = dynamic_cast<const GgufCheckpoint&>(**opened);
  EXPECT_EQ(checkpoint.format_name(), "gguf");
  EXPECT_EQ(checkpoint.version(), 3u);
  EXPECT_EQ(checkpoint.alignment(), 64u);

  const JsonObject& metadata = checkpoint.metadata().get_object();
  const JsonObject& expected = golden->at("metadata").get_object();
  ASSERT_EQ(metadata.size(), expected.size());
  ASSERT_EQ(checkpoint.metadata_types().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& actual = *(metadata.begin() + i);
    const auto& wanted = *(expected.begin() + i);
    SCOPED_TRACE(wanted.key());
    EXPECT_EQ(actual.key(), wanted.key());
    EXPECT_EQ(gguf_type_name(checkpoint.metadata_types()[i]),
              to_view(wanted.value().at("type").get_string()));
    const Json& value = wanted.value().at("value");
    if (!value.is_array()) {
      expect_equal(actual.value(), value);
      continue;
    }
    ASSERT_TRUE(actual.value().is_array());
    ASSERT_EQ(actual.value().get_array().size(), value.get_array().size());
    for (size_t k = 0; k < value.get_array().size(); ++k) {
      expect_equal(actual.value().get_array()[k], value.get_array()[k]);
    }
  }
}

TEST(Gguf, PlacesTensorsWhereThePythonPackageDoes) {
  const auto golden = parse_json(read_file(kGolden + ".json"), kGolden);
  const auto checkpoint = open_checkpoint(kGolden + ".gguf");
  ASSERT_TRUE(golden.ok() && checkpoint.ok());
  const JsonArray& expected = golden->at("tensors").get_array();
  ASSERT_EQ((*checkpoint)->tensors().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const TensorInfo& info = (*checkpoint)->tensors()[i];
    const Json& wanted = expected[i];
    SCOPED_TRACE(info.name);
    EXPECT_EQ(info.name, to_view(wanted.at("name").get_string()));
    EXPECT_EQ(ggml_type_of(info.dtype)->name, to_view(wanted.at("type").get_string()));
    Shape shape;
    for (const Json& extent : wanted.at("shape").get_array()) shape.push_back(extent.get_int64());
    EXPECT_EQ(info.shape, shape);
    EXPECT_EQ(info.offset_bytes, wanted.at("offset").get_int64());
    EXPECT_EQ(info.size_bytes, wanted.at("bytes").get_int64());

    EXPECT_EQ((*checkpoint)->find(info.name), &info);
    const Tensor tensor = (*checkpoint)->tensor(info);
    EXPECT_EQ(tensor.size_bytes(), info.size_bytes);
    int64_t sum = 0;
    for (int64_t k = 0; k < info.size_bytes; ++k) sum += std::to_integer<int64_t>(tensor.data[k]);
    EXPECT_EQ(sum, wanted.at("sum").get_int64());
  }
}

TEST(Gguf, TensorsOutliveTheCheckpoint) {
  Tensor tensor;
  {
    const auto checkpoint = open_checkpoint(kGolden + ".gguf");
    ASSERT_TRUE(checkpoint.ok());
    tensor = (*checkpoint)->tensor(*(*checkpoint)->find("q8_0.weight"));
  }
  int64_t sum = 0;
  for (int64_t k = 0; k < tensor.size_bytes(); ++k) sum += std::to_integer<int64_t>(tensor.data[k]);
  EXPECT_EQ(sum, 20897);  // as in all_types.json
}

TEST(Gguf, FindsNoTensorOfAnotherName) {
  const auto checkpoint = parse_bytes(small_gguf().bytes());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_NE((*checkpoint)->find("first"), nullptr);
  EXPECT_EQ((*checkpoint)->find("firs"), nullptr);
  EXPECT_EQ((*checkpoint)->find(""), nullptr);
}

TEST(Gguf, Version2IsReadLikeVersion3) {
  RawGguf file = small_gguf();
  file.version = 2;
  const auto checkpoint = parse_bytes(file.bytes());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->version(), 2u);
  EXPECT_EQ((*checkpoint)->tensors().size(), 2u);
}

TEST(Gguf, AcceptsTensorsInAnyOrderWithGaps) {
  RawGguf file;
  file.tensors = {raw_tensor("last", {8}, 0, 128), raw_tensor("first", {8}, 0, 32)};
  file.data = std::string(160, 'x');
  const auto checkpoint = parse_bytes(file.bytes());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const auto tensors = (*checkpoint)->tensors();
  EXPECT_EQ(tensors[0].name, "last");
  EXPECT_EQ(tensors[0].offset_bytes - tensors[1].offset_bytes, 96);
}

TEST(Gguf, AcceptsAFileWithoutAnything) {
  const auto checkpoint = parse_bytes(RawGguf().bytes());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_TRUE((*checkpoint)->metadata().get_object().empty());
  EXPECT_TRUE((*checkpoint)->tensors().empty());
}

TEST(Gguf, KeepsStringsThatAreNotUtf8) {
  RawGguf file;
  const std::string bytes("\xff\x00z", 3);
  file.keys = {raw_key("k", GgufKind::kString, raw_string(bytes))};
  const auto checkpoint = parse_bytes(file.bytes());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(to_view((*checkpoint)->metadata().at("k").get_string()), bytes);
}

TEST(Gguf, ReadsAVocabularyFile) {
  const auto opened = open_checkpoint(OCTAVO_TEST_DATA "/vocabs/ggml-vocab-gpt-2.gguf");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Json& metadata = (*opened)->metadata();
  EXPECT_TRUE((*opened)->tensors().empty());
  EXPECT_EQ(to_view(metadata.at("general.architecture").get_string()), "gpt2");
  const JsonArray& tokens = metadata.at("tokenizer.ggml.tokens").get_array();
  ASSERT_EQ(tokens.size(), 50257u);  // GPT-2's vocabulary, known from its paper
  EXPECT_EQ(to_view(tokens[0].get_string()), "!");
  EXPECT_EQ(to_view(tokens[50256].get_string()), "<|endoftext|>");
  EXPECT_EQ(metadata.at("tokenizer.ggml.merges").get_array().size(), 50000u);
}

}  // namespace
}  // namespace octavo::formats
