#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/rng.h"
#include "formats/hf_checkpoint.h"
#include "formats/safetensors_writer.h"
#include "support/temp_path.h"

namespace octavo::formats {
namespace {

std::string image(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, 'x');
}

Result<SafetensorsHeader> read(const std::string& bytes) {
  return read_safetensors_header(std::as_bytes(std::span(bytes)), "file.safetensors");
}

TEST(Safetensors, ReadsEveryDtypeAndMetadata) {
  const auto header = read(image(R"({"__metadata__":{"format":"pt"},
      "b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},
      "a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},
      "c":{"dtype":"F8_E4M3","shape":[0,5],"data_offsets":[20,20]},
      "d":{"dtype":"BOOL","shape":[4],"data_offsets":[20,24]}})",
                                 24));
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->tensors.size(), 4u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[1].dtype, DType::kBF16);
  EXPECT_EQ(header->tensors[1].shape, (Shape{2, 3}));
  EXPECT_EQ(header->tensors[1].offset_bytes - header->tensors[0].offset_bytes, 8);
  EXPECT_EQ(header->tensors[2].size_bytes, 0);
  EXPECT_EQ(header->metadata.at("format"), "pt");
}

struct Malformed {
  const char* header;
  size_t data_bytes;
  const char* expected;  // in the message
};

constexpr Malformed kMalformedHeaders[] = {
    {R"([])", 0, "object"},
    {R"({"a":)", 0, "JSON"},
    {R"({"a":{}} x)", 0, "JSON"},
    {R"({"a":3})", 0, "'a'"},
    {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "dtype"},
    {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, "F33"},
    {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4, "dtype"},
    {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "shape"},
    {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "shape"},
    {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "shape"},
    {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "shape"},
    {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, "shape"},
    {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
     "overflows"},
    {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0,
     "overflows"},
    {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "outside"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, "outside"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}})", 4, "span 3"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "takes 8"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "1 bytes"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "instead of"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
         "b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
     6, "'b'"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
         "b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})",
     9, "'b'"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
         "b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     4, "starts at byte"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
         "b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     4, "'b': bytes 4 to 8 lie outside"},
    {"", 0, "JSON"},
    {"{", 0, "JSON"},
    {"null", 0, "object"},
    {"7", 0, "object"},
    {"{}", 1, "1 bytes"},
    {R"({"a":[]})", 0, "'a' is not described by an object"},
    {R"({"a":null})", 0, "'a' is not described by an object"},
    {R"({"a":{"dtype":"","shape":[1],"data_offsets":[0,4]}})", 4, "dtype ''"},
    {R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4, "dtype 'f32'"},
    {R"({"a":{"dtype":null,"shape":[1],"data_offsets":[0,4]}})", 4, "'dtype' is missing"},
    {R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4, "'dtype' must be"},
    {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "'shape' must be"},
    {R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4, "'shape' must be"},
    {R"({"a":{"dtype":"F32","shape":[null],"data_offsets":[0,4]}})", 4, "'shape'"},
    {R"({"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}})", 4, "'shape'"},
    {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "'shape'"},
    {R"({"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]}})", 4, "overflows"},
    {R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,4]}})", 4, "takes 0"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":7}})", 4, "'data_offsets' must be"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "must hold two"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}})", 4, "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":["0","4"]}})", 4, "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})", 4,
     "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775807]}})", 4, "outside"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
         "a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
     2, "'a'"},
    {R"({"__metadata__":[]})", 0, "__metadata__"},
    {R"({"__metadata__":null})", 0, "__metadata__"},
    {R"({"__metadata__":"pt"})", 0, "__metadata__"},
    {R"({"__metadata__":{"a":{}}})", 0, "'a' is none"},
    {R"({"__metadata__":{"a":null}})", 0, "'a' is none"},
    {R"({"__metadata__":{"a":1}})", 0, "__metadata__"},
};

TEST(Safetensors, MalformedHeadersAreNamed) {
  for (const Malformed& c : kMalformedHeaders) {
    const auto header = read(image(c.header, c.data_bytes));
    ASSERT_FALSE(header.ok()) << c.header;
    EXPECT_NE(header.status().message().find("file.safetensors"), std::string::npos);
    EXPECT_NE(header.status().message().find(c.expected), std::string::npos)
        << header.status().message();
  }
}

TEST(Safetensors, HeadersOfImpossibleLengthsAreNamed) {
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{100'000'001}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string bytes = image("{}", 0);
    std::memcpy(bytes.data(), &length, sizeof(length));
    const auto header = read(bytes);
    ASSERT_FALSE(header.ok()) << length;
    EXPECT_NE(header.status().message().find("file.safetensors: the header takes"),
              std::string::npos)
        << header.status().message();
  }
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read(std::string(7, '\0')).ok());
}

TEST(Safetensors, EveryTruncationAndManyMutationsSurvive) {
  const std::string whole = image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                  R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
                                  11);
  ASSERT_TRUE(read(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read(whole.substr(0, size)).ok()) << size;
  }
  Rng rng(3);
  for (int round = 0; round < 20000; ++round) {
    std::string mutated = whole;
    for (int k = 0; k < 3; ++k) {
      mutated[rng.next_u64() % mutated.size()] = static_cast<char>(rng.next_u64());
    }
    const auto header = read(mutated);
    if (!header.ok()) continue;
    for (const TensorInfo& info : header->tensors) {
      ASSERT_LE(info.offset_bytes + info.size_bytes, static_cast<int64_t>(mutated.size()));
    }
  }
}

TEST(Safetensors, TheWriterWritesWhatTheReaderReads) {
  const std::string path = testing::temp_path("written.safetensors");
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<uint8_t> b = {7, 8, 9};
  const Tensor tensors[] = {
      {"a", DType::kF32, {2, 3}, reinterpret_cast<const std::byte*>(a.data()), nullptr},
      {"b", DType::kU8, {3}, reinterpret_cast<const std::byte*>(b.data()), nullptr}};
  ASSERT_TRUE(write_safetensors(path, tensors).ok());
  const auto file = MmapFile::open(path).value();
  const auto header = read_safetensors_header(file->bytes(), path).value();
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(std::memcmp(file->bytes().data() + header.tensors[0].offset_bytes, a.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file->bytes().data() + header.tensors[1].offset_bytes, b.data(), 3), 0);
  const Tensor twice[] = {tensors[0], tensors[0]};
  EXPECT_FALSE(write_safetensors(path, twice).ok());
  const Tensor blocks[] = {{"q", DType::kQ8_0, {1, 32}, tensors[0].data, nullptr}};
  const Status refused = write_safetensors(path, blocks);
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_NE(refused.message().find("'q': safetensors has no type q8_0"), std::string::npos);
}

TEST(Safetensors, TheWriterKnowsEveryTypeOfTheReader) {
  const std::string path = testing::temp_path("types.safetensors");
  const std::vector<std::byte> bytes(8);
  int written = 0;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype_traits(dtype).quantized) continue;
    const Tensor tensors[] = {{"a", dtype, {1}, bytes.data(), nullptr}};
    ASSERT_TRUE(write_safetensors(path, tensors).ok()) << dtype_traits(dtype).name;
    const auto file = MmapFile::open(path).value();
    EXPECT_EQ(read_safetensors_header(file->bytes(), path)->tensors.at(0).dtype, dtype);
    ++written;
  }
  EXPECT_EQ(written, 15);
}

// A folder with config.json and what a test adds.
class HfFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::temp_path("folder");
    std::filesystem::create_directories(folder_);
    write("config.json", R"({"model_type":"llama"})");
  }
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
  }
  void write_shard(const std::string& name, const std::string& tensor) {
    write(name, image("{\"" + tensor + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4));
  }
  void expect_refused(const std::string& part) {
    const auto checkpoint = HfCheckpoint::open(folder_);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_NE(checkpoint.status().message().find(part), std::string::npos)
        << checkpoint.status().message();
  }
  std::string folder_;
};

TEST_F(HfFolder, ReadsOnlyTheFilesThatTheIndexNames) {
  write_shard("one.safetensors", "a");
  write_shard("two.safetensors", "b");
  write_shard("model.safetensors", "not.in.the.index");
  write("generation_config.json", R"({"eos_token_id":[1,2]})");
  write("model.safetensors.index.json",
        R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto checkpoint = HfCheckpoint::open(folder_ + "/");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->tensors().size(), 2u);
  const Tensor b = (*checkpoint)->tensor(*(*checkpoint)->find("b"));
  EXPECT_EQ(b.data[0], std::byte{'x'});
  EXPECT_EQ((*checkpoint)->find("not.in.the.index"), nullptr);
  EXPECT_NE(json_find((*checkpoint)->metadata(), "generation_config"), nullptr);
}

TEST_F(HfFolder, PickledWeightsAreRefusedWithAdvice) {
  for (const char* name : {"pytorch_model.bin", "consolidated.00.pth", "a.pt"}) {
    write(name, "");
    expect_refused(std::string("'") + name + "'");  // the first by name: each precedes the last
    expect_refused("save the model as safetensors");
  }
}

TEST_F(HfFolder, ContradictionsAreNamed) {
  expect_refused("model.safetensors");
  write_shard("one.safetensors", "a");
  const auto index = [&](const std::string& text) { write("model.safetensors.index.json", text); };
  index("{}");
  expect_refused("weight_map");
  index(R"({"weight_map":{"a":3}})");
  expect_refused("'a'");
  index(R"({"weight_map":{"a":"../one.safetensors"}})");
  expect_refused("../one.safetensors");
  index(R"({"weight_map":{"a":"gone.safetensors"}})");
  expect_refused("gone.safetensors");
  index(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})");
  expect_refused("'b'");
  index(R"({"weight_map":{"b":"one.safetensors"}})");
  expect_refused("'b'");
  write_shard("two.safetensors", "a");
  index(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  expect_refused("another file");
  write("config.json", "[]");
  expect_refused("config.json");
  write("config.json", "{");
  expect_refused("config.json");
}

}  // namespace
}  // namespace octavo::formats
