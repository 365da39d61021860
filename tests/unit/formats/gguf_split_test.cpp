// Models in several GGUF files: any part opens all, and parts that contradict each other are named.
#include "formats/gguf_split.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/format.h"
#include "gguf_bytes.h"

namespace octavo::formats {
namespace {

constexpr int kParts = 3;

// Part `index` of three, with a tensor t0, t1 or t2 of eight floats; the first has the metadata.
struct Part {
  std::string name;
  std::string index_key;
  std::string count_key;
  std::string tensors_key;
  std::string tensor;
  RawGguf file;

  explicit Part(int index)
      : name(format("model-{:05}-of-{:05}.gguf", index + 1, kParts)),
        index_key(raw_key("split.no", GgufKind::kU16, raw(static_cast<uint16_t>(index)))),
        count_key(raw_key("split.count", GgufKind::kU16, raw(uint16_t{kParts}))),
        tensors_key(raw_key("split.tensors.count", GgufKind::kI32, raw(int32_t{kParts}))),
        tensor(format("t{}", index)) {
    file.data = std::string(32, static_cast<char>('a' + index));
    if (index == 0) {
      file.keys = {raw_key("general.architecture", GgufKind::kString, raw_string("llama"))};
    }
  }

  std::string bytes() const {
    RawGguf whole = file;
    whole.keys.insert(whole.keys.end(), {index_key, count_key, tensors_key});
    std::erase(whole.keys, "");
    whole.tensors = {raw_tensor(tensor, {8}, 0, 0)};
    return whole.bytes();
  }
};

class GgufSplit : public testing::Test {
 protected:
  GgufSplit() : folder_(testing::TempDir() + "octavo_gguf_split_test") {
    for (int i = 0; i < kParts; ++i) parts_.emplace_back(i);
  }
  ~GgufSplit() override { std::filesystem::remove_all(folder_); }

  // Writes the parts and opens the one numbered `index`; parts without a name are not written.
  Result<std::shared_ptr<const Checkpoint>> open(int index) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    for (const Part& part : parts_) {
      if (!part.name.empty()) write_file(folder_ + "/" + part.name, part.bytes());
    }
    return open_checkpoint(folder_ + "/" + parts_[index].name);
  }

  std::string folder_;
  std::vector<Part> parts_;
};

TEST_F(GgufSplit, AnyPartOpensAllOfThem) {
  for (int given = 0; given < kParts; ++given) {
    const auto checkpoint = open(given);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_EQ((*checkpoint)->path(), folder_ + "/" + parts_[given].name);
    EXPECT_NE(json_find((*checkpoint)->metadata(), "general.architecture"), nullptr);
    int64_t bytes = 0;
    ASSERT_EQ((*checkpoint)->tensors().size(), 3u);
    for (int i = 0; i < kParts; ++i) {
      const TensorInfo& info = (*checkpoint)->tensors()[i];
      EXPECT_EQ(info.name, parts_[i].tensor);
      EXPECT_EQ((*checkpoint)->find(info.name), &info);
      const Tensor tensor = (*checkpoint)->tensor(info);
      for (int k = 0; k < 32; ++k) ASSERT_EQ(tensor.data[k], static_cast<std::byte>('a' + i));
      bytes += static_cast<int64_t>(parts_[i].bytes().size());
    }
    EXPECT_EQ((*checkpoint)->file_bytes(), bytes);
  }
}

TEST_F(GgufSplit, ACountOfOneIsAWholeModelOfAnyName) {
  parts_.erase(parts_.begin() + 1, parts_.end());
  parts_[0].name = "whole.gguf";
  for (const uint16_t count : {0, 1}) {
    parts_[0].count_key = raw_key("split.count", GgufKind::kU16, raw(count));
    EXPECT_TRUE(open(0).ok());
  }
  parts_[0].count_key = "";
  parts_[0].name = "model-00001-of-00003.gguf";  // a name alone says nothing
  EXPECT_TRUE(open(0).ok());
}

TEST_F(GgufSplit, TensorsOutliveTheCheckpoint) {
  Tensor tensor;
  {
    const auto checkpoint = open(1);
    ASSERT_TRUE(checkpoint.ok());
    tensor = (*checkpoint)->tensor(*(*checkpoint)->find("t2"));
  }
  EXPECT_EQ(tensor.data[31], std::byte{'c'});
}

TEST_F(GgufSplit, PartsThatDoNotFitAreNamed) {
  const std::string second = "model-00002-of-00003.gguf";
  const auto u16 = [](const char* key, uint16_t value) {
    return raw_key(key, GgufKind::kU16, raw(value));
  };
  const auto text = [](const char* key) {
    return raw_key(key, GgufKind::kString, raw_string("1"));
  };
  struct Case {
    std::string what;
    int opened;
    std::function<void(std::vector<Part>&)> change;
    StatusCode code;
    std::vector<std::string> fragments;
  };
  const StatusCode data = StatusCode::kDataLoss;
  const std::vector<Case> cases = {
      {"a part is missing",
       0,
       [](auto& p) { p[1].name = ""; },
       StatusCode::kNotFound,
       {"part 2 of 3", second}},
      {"the first part is missing",
       2,
       [](auto& p) { p[0].name = ""; },
       StatusCode::kNotFound,
       {"part 1 of 3", "model-00001-of-00003.gguf"}},
      {"a name without a number",
       1,
       [](auto& p) { p[1].name = "model.gguf"; },
       StatusCode::kUnsupported,
       {"model.gguf", "'split.count'", "NAME-00001-of-00003.gguf"}},
      {"a number of four digits",
       1,
       [](auto& p) { p[1].name = "model-0002-of-00003.gguf"; },
       StatusCode::kUnsupported,
       {"'split.count'"}},
      {"a sign for a digit",
       1,
       [](auto& p) { p[1].name = "model-+0002-of-00003.gguf"; },
       StatusCode::kUnsupported,
       {"'split.count'"}},
      {"the name counts four",
       1,
       [](auto& p) { p[1].name = "model-00002-of-00004.gguf"; },
       data,
       {"model-00002-of-00004.gguf", "part 2 of 4", "is 3"}},
      {"the name has number 0",
       0,
       [](auto& p) { p[0].name = "model-00000-of-00003.gguf"; },
       data,
       {"part 0 of 3"}},
      {"the name has number 4",
       0,
       [](auto& p) { p[0].name = "model-00004-of-00003.gguf"; },
       data,
       {"part 4 of 3"}},
      {"two names are exchanged",
       0,
       [](auto& p) { std::swap(p[0].name, p[1].name); },
       data,
       {"model-00001-of-00003.gguf", "'split.no' must be 0", "is 1"}},
      {"a part of another count",
       0,
       [&](auto& p) { p[1].count_key = u16("split.count", 4); },
       data,
       {second, "'split.count' must be 3", "is 4"}},
      {"a part without a count",
       0,
       [](auto& p) { p[1].count_key = ""; },
       data,
       {second, "'split.count'", "missing"}},
      {"a part without a number",
       0,
       [](auto& p) { p[1].index_key = ""; },
       data,
       {second, "'split.no'", "missing"}},
      {"a count that is a text",
       0,
       [&](auto& p) { p[0].count_key = text("split.count"); },
       data,
       {"'split.count' must be a number"}},
      {"a number that is a text",
       0,
       [&](auto& p) { p[2].index_key = text("split.no"); },
       data,
       {"model-00003-of-00003.gguf", "'split.no' must be a number"}},
      {"a negative count",
       0,
       [](auto& p) { p[0].count_key = raw_key("split.count", GgufKind::kI32, raw(int32_t{-1})); },
       data,
       {"'split.count' must be a number, at least 0"}},
      {"a count beyond five digits",
       0,
       [](auto& p) {
         p[0].count_key = raw_key("split.count", GgufKind::kU64, raw(uint64_t{1} << 40));
       },
       data,
       {"part 1 of 3", "1099511627776"}},
      {"a tensor in two parts",
       0,
       [](auto& p) { p[2].tensor = "t0"; },
       data,
       {"model-00003-of-00003.gguf", "tensor 't0'", "model-00001-of-00003.gguf"}},
      {"fewer tensors than declared",
       0,
       [](auto& p) {
         p[0].tensors_key = raw_key("split.tensors.count", GgufKind::kI32, raw(int32_t{4}));
       },
       data,
       {"'split.tensors.count' is 4", "3 tensors"}},
      {"a part that is no GGUF file",
       0,
       [](auto& p) { p[1].file.magic = "GGUX"; },
       data,
       {second, "GGUF"}},
      {"a big-endian part",
       0,
       [](auto& p) { p[1].file.version = 0x03000000; },
       StatusCode::kUnsupported,
       {second, "big-endian"}},
      {"a truncated part",
       0,
       [](auto& p) { p[1].file.data.pop_back(); },
       data,
       {second, "tensor 't1'"}},
  };
  const std::vector<Part> whole = parts_;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    parts_ = whole;
    c.change(parts_);
    const auto checkpoint = open(c.opened);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_EQ(checkpoint.status().code(), c.code) << checkpoint.status().message();
    for (const std::string& fragment : c.fragments) {
      EXPECT_NE(checkpoint.status().message().find(fragment), std::string::npos)
          << "no '" << fragment << "' in: " << checkpoint.status().message();
    }
  }
}

}  // namespace
}  // namespace octavo::formats
