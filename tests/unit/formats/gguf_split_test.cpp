// Models in several GGUF files: any part opens all, and parts that contradict each other are named.
#include "formats/gguf_split.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/format.h"
#include "gguf_bytes.h"
#include "support/temp_path.h"

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

using Parts = std::vector<Part>;

// A valid model, changed; opening one of its parts must fail.
struct BadSplit {
  std::string what;
  int opened;
  std::function<void(Parts&)> change;
  StatusCode code;
  std::vector<std::string> fragments;  // of the message
};

class GgufSplit : public ::testing::Test {
 protected:
  GgufSplit() {
    for (int i = 0; i < kParts; ++i) parts_.emplace_back(i);
  }

  // Writes the parts and opens the one numbered `index`; parts without a name are not written.
  Result<std::shared_ptr<const Checkpoint>> open(int index) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    for (const Part& part : parts_) {
      if (!part.name.empty()) write_file(folder_ + "/" + part.name, part.bytes());
    }
    return open_checkpoint(folder_ + "/" + parts_[index].name);
  }

  void check(const std::vector<BadSplit>& cases) {
    const Parts whole = parts_;
    for (const BadSplit& c : cases) {
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

  const std::string folder_ = testing::temp_path("model");
  Parts parts_;
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

const std::string kFirst = "model-00001-of-00003.gguf";
const std::string kSecond = "model-00002-of-00003.gguf";
const std::string kThird = "model-00003-of-00003.gguf";

template <typename T>
std::string number_key(std::string_view key, GgufKind kind, T value) {
  return raw_key(key, kind, raw(value));
}
std::string text_key(std::string_view key) {
  return raw_key(key, GgufKind::kString, raw_string("1"));
}

TEST_F(GgufSplit, MissingPartsAndWrongNamesAreNamed) {
  const auto named = [](int part, std::string name) {
    return [part, name](Parts& p) { p[part].name = name; };
  };
  check({
      {"a part is missing", 0, named(1, ""), StatusCode::kNotFound, {"part 2 of 3", kSecond}},
      {"the first is missing", 2, named(0, ""), StatusCode::kNotFound, {"part 1 of 3", kFirst}},
      {"no number",
       1,
       named(1, "model.gguf"),
       kUnsup,
       {"model.gguf", "'split.count'", "NAME-00001-of-00003.gguf"}},
      {"four digits", 1, named(1, "model-0002-of-00003.gguf"), kUnsup, {"'split.count'"}},
      {"a sign for a digit", 1, named(1, "model-+0002-of-00003.gguf"), kUnsup, {"'split.count'"}},
      {"four parts", 1, named(1, "model-00002-of-00004.gguf"), kData, {"part 2 of 4", "is 3"}},
      {"number 0", 0, named(0, "model-00000-of-00003.gguf"), kData, {"part 0 of 3"}},
      {"number 4", 0, named(0, "model-00004-of-00003.gguf"), kData, {"part 4 of 3"}},
      {"exchanged",
       0,
       [](Parts& p) { std::swap(p[0].name, p[1].name); },
       kData,
       {kFirst, "'split.no' must be 0", "is 1"}},
  });
}

TEST_F(GgufSplit, KeysThatContradictEachOtherAreNamed) {
  const auto count = [](int part, std::string key) {
    return [part, key](Parts& p) { p[part].count_key = key; };
  };
  const auto index = [](int part, std::string key) {
    return [part, key](Parts& p) { p[part].index_key = key; };
  };
  const auto four = number_key("split.count", GgufKind::kU16, uint16_t{4});
  const auto negative = number_key("split.count", GgufKind::kI32, int32_t{-1});
  const auto huge = number_key("split.count", GgufKind::kU64, uint64_t{1} << 40);
  const auto tensors = number_key("split.tensors.count", GgufKind::kI32, int32_t{4});
  const std::string count_text = text_key("split.count");
  const std::string index_text = text_key("split.no");
  check({
      {"another count", 0, count(1, four), kData, {kSecond, "'split.count' must be 3", "is 4"}},
      {"no count", 0, count(1, ""), kData, {kSecond, "'split.count'", "missing"}},
      {"no number", 0, index(1, ""), kData, {kSecond, "'split.no'", "missing"}},
      {"count is a text", 0, count(0, count_text), kData, {"'split.count' must be a number"}},
      {"number is a text", 0, index(2, index_text), kData, {kThird, "'split.no' must be a"}},
      {"negative count", 0, count(0, negative), kData, {"'split.count' must be", "at least 0"}},
      {"huge count", 0, count(0, huge), kData, {"part 1 of 3", "1099511627776"}},
      {"more tensors than there are",
       0,
       [&](Parts& p) { p[0].tensors_key = tensors; },
       kData,
       {"'split.tensors.count' is 4", "3 tensors"}},
  });
}

TEST_F(GgufSplit, PartsThatAreWrongThemselvesAreNamed) {
  check({
      {"a tensor twice",
       0,
       [](Parts& p) { p[2].tensor = "t0"; },
       kData,
       {kThird, "tensor 't0'", kFirst}},
      {"no GGUF", 0, [](Parts& p) { p[1].file.magic = "GGUX"; }, kData, {kSecond, "GGUF"}},
      {"big-endian",
       0,
       [](Parts& p) { p[1].file.version = 0x03000000; },
       kUnsup,
       {kSecond, "big-endian"}},
      {"truncated",
       0,
       [](Parts& p) { p[1].file.data.pop_back(); },
       kData,
       {kSecond, "tensor 't1'"}},
  });
}

}  // namespace
}  // namespace octavo::formats
