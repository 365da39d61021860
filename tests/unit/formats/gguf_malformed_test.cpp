// Files that break one rule each: every one must give an error that names what is wrong and where.
#include <gtest/gtest.h>

#include "gguf_bytes.h"

namespace octavo::formats {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 62;

struct BadFile {
  std::string what;
  RawGguf file;
  StatusCode code;
  std::vector<std::string> fragments;  // of the message
};

RawGguf with_key(std::string key) {
  RawGguf file;
  file.keys = {raw_key("before", GgufKind::kU8, raw(uint8_t{1})), std::move(key)};
  return file;
}

RawGguf with_array(GgufKind element, uint64_t count, std::string_view elements) {
  return with_key(raw_key("a.key", GgufKind::kArray, raw_array(element, count, elements)));
}

RawGguf with_alignment(GgufKind kind, std::string_view value) {
  return with_key(raw_key("general.alignment", kind, value));
}

RawGguf with_tensors(std::vector<std::string> tensors, size_t data_bytes = 256) {
  RawGguf file;
  file.tensors = std::move(tensors);
  file.data = std::string(data_bytes, 'x');
  return file;
}

RawGguf with_dims(const std::vector<uint64_t>& dims, uint32_t type = 0) {
  return with_tensors({raw_tensor("w", dims, type, 0)});
}

RawGguf with_type(uint32_t type) {
  return with_tensors({raw_tensor("blk.0.w", {256}, type, 0)});
}

RawGguf with_version(uint32_t version) {
  RawGguf file = small_gguf();
  file.version = version;
  return file;
}

RawGguf with_counts(std::optional<uint64_t> num_keys, std::optional<uint64_t> num_tensors) {
  RawGguf file = small_gguf();
  file.num_keys = num_keys;
  file.num_tensors = num_tensors;
  return file;
}

void check(const std::vector<BadFile>& cases) {
  ASSERT_TRUE(parse_bytes(small_gguf().bytes()).ok());
  for (const BadFile& c : cases) {
    SCOPED_TRACE(c.what);
    const auto checkpoint = parse_bytes(c.file.bytes(), "dir/model.gguf");
    ASSERT_FALSE(checkpoint.ok());
    const Status& status = checkpoint.status();
    EXPECT_EQ(status.code(), c.code) << status.message();
    EXPECT_TRUE(status.message().starts_with("dir/model.gguf: ")) << status.message();
    EXPECT_NE(status.message().find(", at byte "), std::string::npos) << status.message();
    for (const std::string& fragment : c.fragments) {
      EXPECT_NE(status.message().find(fragment), std::string::npos)
          << "no '" << fragment << "' in: " << status.message();
    }
  }
}

TEST(GgufMalformed, Header) {
  RawGguf magic = small_gguf();
  magic.magic = "GGUX";
  check({
      {"magic", magic, kData, {"GGUF", "at byte 0"}},
      {"version 0", with_version(0), kData, {"version 0", "at byte 4"}},
      {"version 1", with_version(1), kUnsup, {"version 1", "at byte 4"}},
      {"version 4", with_version(4), kUnsup, {"version 4", "at byte 4"}},
      {"big-endian", with_version(0x03000000), kUnsup, {"big-endian", "at byte 4"}},
      {"tensors", with_counts({}, kHuge), kData, {"the tensors", "at byte 8"}},
      {"tensors -1", with_counts({}, UINT64_MAX), kData, {"the tensors", "at byte 8"}},
      {"keys", with_counts(kHuge, {}), kData, {"the metadata keys", "at byte 16"}},
      {"keys -1", with_counts(UINT64_MAX, {}), kData, {"the metadata keys", "at byte 16"}},
      {"a tensor too many", with_counts({}, 3), kData, {"tensor number 3"}},
      {"a key too many", with_counts(4, {}), kData, {"tensor number 1"}},
  });
}

TEST(GgufMalformed, Keys) {
  const std::string one = raw(uint8_t{1});
  RawGguf twice = with_key(raw_key("a.key", GgufKind::kU8, one));
  twice.keys.push_back(twice.keys.back());
  RawGguf many = twice;  // enough keys for hashed look-up
  many.keys.pop_back();
  for (int i = 0; i < 100; ++i) {
    many.keys.push_back(raw_key("k" + std::to_string(i), GgufKind::kU8, one));
  }
  many.keys.push_back(raw_key("k50", GgufKind::kU8, one));
  check({
      {"empty key", with_key(raw_key("", GgufKind::kU8, one)), kData, {"key number 2", "empty"}},
      {"key twice", twice, kData, {"key 'a.key'", "twice", "at byte 61"}},
      {"one of many twice", many, kData, {"key 'k50'", "twice"}},
      {"key length", with_key(raw(kHuge) + "key" + std::string(20, ' ')), kData, {"key number 2"}},
      {"key length -1", with_key(raw(UINT64_MAX) + std::string(20, ' ')), kData, {"key number 2"}},
      {"key of 64 KiB",
       with_key(raw_key(std::string(65536, 'k'), GgufKind::kU8, one)),
       kData,
       {"65536 bytes"}},
      {"control characters are not printed",
       with_key(raw_key("a\x1b[31m", GgufKind::kU8, "")),
       kData,
       {"'a\\x1b[31m'"}},
      {"long names are cut",
       with_key(raw_key(std::string(100, 'k'), GgufKind::kU8, "")),
       kData,
       {"'" + std::string(64, 'k') + "...'"}},
  });
}

TEST(GgufMalformed, Values) {
  check({
      {"unknown type",
       with_key(raw_key("a.key", GgufKind{13}, "    ")),
       kData,
       {"key 'a.key'", "value type 13"}},
      {"wild type",
       with_key(raw_string("a.key") + raw(UINT32_MAX) + "    "),
       kData,
       {"key 'a.key'", "value type 4294967295"}},
      {"bool 2",
       with_key(raw_key("a.key", GgufKind::kBool, "\x02")),
       kData,
       {"key 'a.key'", "bool", "not 2"}},
      {"string length",
       with_key(raw_key("a.key", GgufKind::kString, raw(kHuge) + "text")),
       kData,
       {"key 'a.key'", "4611686018427387904 bytes"}},
      {"string length -1",
       with_key(raw_key("a.key", GgufKind::kString, raw(UINT64_MAX) + "text")),
       kData,
       {"key 'a.key'"}},
      {"string one too long",
       with_key(raw_key("a.key", GgufKind::kString, raw(uint64_t{5}) + "text")),
       kData,
       {"key 'a.key'", "5 bytes, but 4 are left"}},
      {"missing value",
       with_key(raw_key("a.key", GgufKind::kU64, "1234567")),
       kData,
       {"key 'a.key'", "8 bytes, but 7 are left"}},
      {"missing type", with_key(raw_string("a.key") + "xyz"), kData, {"key 'a.key'", "value type"}},
  });
}

TEST(GgufMalformed, StringsAreCapped) {
  const std::string text((size_t{64} << 20) + 1, 't');
  check({{"element",
          with_array(GgufKind::kString, 1, raw_string(text)),
          kData,
          {"key 'a.key'", "67108865 bytes"}}});
}

TEST(GgufMalformed, Arrays) {
  const std::string nested = raw_array(GgufKind::kU8, 1, "x");
  check({
      {"element type", with_array(GgufKind{13}, 1, "x"), kData, {"key 'a.key'", "type 13"}},
      {"nested", with_array(GgufKind::kArray, 1, nested), kUnsup, {"key 'a.key'", "arrays of"}},
      {"count", with_array(GgufKind::kU8, kHuge, "x"), kData, {"key 'a.key'", "an array of"}},
      {"count -1", with_array(GgufKind::kU8, UINT64_MAX, "x"), kData, {"key 'a.key'"}},
      {"count times size wraps to 0",
       with_array(GgufKind::kU64, uint64_t{1} << 61, "x"),
       kData,
       {"key 'a.key'", "an array of 2305843009213693952 elements"}},
      {"one element too many",
       with_array(GgufKind::kI32, 3, raw(int64_t{})),
       kData,
       {"key 'a.key'", "an array of 3 elements"}},
      {"string count",
       with_array(GgufKind::kString, kHuge, raw_string("a")),
       kData,
       {"key 'a.key'"}},
      {"a string's length",
       with_array(GgufKind::kString, 2, raw_string("abcdefgh") + raw(kHuge)),
       kData,
       {"key 'a.key'", "a string wants"}},
      {"bool 255",
       with_array(GgufKind::kBool, 3, std::string("\x00\x01\xff", 3)),
       kData,
       {"key 'a.key'", "not 255", "at byte 74"}},
      {"too many values in all",
       with_array(GgufKind::kU8, 9 << 20, std::string(9 << 20, 'x')),
       kUnsup,
       {"key 'a.key'", "8388608 metadata values"}},
  });
}

TEST(GgufMalformed, Alignment) {
  const auto u32 = [](uint32_t value) { return with_alignment(GgufKind::kU32, raw(value)); };
  check({
      {"0", u32(0), kData, {"key 'general.alignment'", "not 0"}},
      {"4", u32(4), kData, {"key 'general.alignment'", "not 4"}},
      {"no power of two", u32(48), kData, {"key 'general.alignment'", "not 48"}},
      {"2 MiB", u32(1 << 21), kData, {"key 'general.alignment'", "not 2097152"}},
      {"wild", u32(UINT32_MAX), kData, {"key 'general.alignment'", "not 4294967295"}},
      {"u64", with_alignment(GgufKind::kU64, raw(uint64_t{32})), kData, {"not u64"}},
      {"string", with_alignment(GgufKind::kString, raw_string("32")), kData, {"not string"}},
  });
}

TEST(GgufMalformed, TensorNamesAndShapes) {
  const std::string w = raw_tensor("w", {4}, 0, 0);
  check({
      {"empty name",
       with_tensors({w, raw_tensor("", {4}, 0, 32)}),
       kData,
       {"tensor number 2", "empty"}},
      {"name twice",
       with_tensors({w, raw_tensor("w", {4}, 0, 32)}),
       kData,
       {"tensor 'w'", "twice", "at byte 57"}},
      {"name length",
       with_tensors({raw(kHuge) + std::string(40, 'x')}),
       kData,
       {"tensor number 1", "the name"}},
      {"no dimension", with_dims({}), kData, {"tensor 'w'", "0 dimensions"}},
      {"five dimensions", with_dims({1, 1, 1, 1, 1}), kData, {"tensor 'w'", "5 dimensions"}},
      {"wild dimensions",
       with_tensors({raw_string("w") + raw(UINT32_MAX) + std::string(24, 'x')}),
       kData,
       {"tensor 'w'", "4294967295 dimensions"}},
      {"dimension 0", with_dims({4, 0}), kData, {"tensor 'w'", "dimension 1 is 0"}},
      {"0 after an overflow", with_dims({kHuge, kHuge, 0}), kData, {"tensor 'w'", "overflows"}},
      {"dimension -1", with_dims({UINT64_MAX}), kData, {"tensor 'w'", "overflows"}},
      {"product wraps to 0",
       with_dims({uint64_t{1} << 32, uint64_t{1} << 32}),
       kData,
       {"tensor 'w'", "overflows"}},
      {"product wraps to a small number",
       with_dims({(uint64_t{1} << 32) + 1, (uint64_t{1} << 32) + 1}),
       kData,
       {"tensor 'w'", "overflows"}},
      {"product above 2^63",
       with_dims({uint64_t{1} << 31, uint64_t{1} << 32}),
       kData,
       {"tensor 'w'", "overflows"}},
      {"bytes wrap to 0", with_dims({uint64_t{1} << 61}, 28), kData, {"tensor 'w'", "bytes"}},
      {"bytes of blocks overflow", with_dims({uint64_t{1} << 62, 1}, 8), kData, {"tensor 'w'"}},
      {"row of a part of a block", with_dims({33, 32}, 2), kData, {"tensor 'w'", "Q4_0"}},
      {"row of half a K block", with_dims({128, 2}, 12), kData, {"tensor 'w'", "Q4_K", "256"}},
      {"row of a K block and a half", with_dims({384}, 14), kData, {"tensor 'w'", "Q6_K"}},
      {"row of a part of an IQ block", with_dims({255}, 21), kData, {"tensor 'w'", "IQ3_S"}},
      {"row of a part of an MXFP4 block", with_dims({48}, 39), kData, {"tensor 'w'", "MXFP4"}},
      {"row of half an NVFP4 block", with_dims({96}, 40), kData, {"tensor 'w'", "NVFP4", "64"}},
      {"row of half a Q1_0 block", with_dims({64, 2}, 41), kData, {"tensor 'w'", "Q1_0", "128"}},
      {"row of half a Q2_0 block", with_dims({32, 2}, 42), kData, {"tensor 'w'", "Q2_0", "64"}},
      {"product of K blocks overflows", with_dims({kHuge, 4}, 12), kData, {"overflows"}},
  });
}

TEST(GgufMalformed, TooManyTensors) {
  RawGguf file;
  file.num_tensors = (1 << 20) + 1;
  file.data = std::string(size_t{33} * ((1 << 20) + 2), '\0');
  check({{"tensors", file, kUnsup, {"1048577 tensors"}}});
}

TEST(GgufMalformed, TensorTypes) {
  check({
      {"Q8_K", with_type(15), kUnsup, {"tensor 'blk.0.w'", "Q8_K", "activations"}},
      {"Q4_2", with_type(4), kUnsup, {"tensor 'blk.0.w'", "Q4_2", "removed"}},
      {"Q4_0_4_4", with_type(31), kUnsup, {"tensor 'blk.0.w'", "Q4_0_4_4", "removed"}},
      {"the first unknown", with_type(43), kUnsup, {"tensor 'blk.0.w'", "type 43 is not known"}},
      {"unknown", with_type(97), kUnsup, {"tensor 'blk.0.w'", "type 97 is not known"}},
      {"wild", with_type(UINT32_MAX), kUnsup, {"tensor 'blk.0.w'", "4294967295"}},
  });
}

TEST(GgufMalformed, TensorPlaces) {
  RawGguf aligned = with_alignment(GgufKind::kU32, raw(uint32_t{64}));
  aligned.tensors = {raw_tensor("w", {4}, 0, 32)};
  aligned.alignment = 64;
  aligned.data = std::string(256, 'x');
  const std::string first = raw_tensor("first", {16}, 0, 64);
  RawGguf no_data = with_tensors({raw_tensor("w", {4}, 0, 0)}, 0);
  check({
      {"offset unaligned",
       with_tensors({raw_tensor("w", {4}, 0, 4)}),
       kData,
       {"tensor 'w'", "offset 4", "alignment 32", "at byte 49"}},
      {"offset unaligned to the file's own alignment", aligned, kData, {"offset 32"}},
      {"offset at the end",
       with_tensors({raw_tensor("w", {4}, 0, 256)}),
       kData,
       {"tensor 'w'", "run past the 256 bytes"}},
      {"offset beyond the end",
       with_tensors({raw_tensor("w", {4}, 0, 288)}),
       kData,
       {"tensor 'w'", "run past"}},
      {"offset plus size wraps",
       with_tensors({raw_tensor("w", {64}, 0, UINT64_MAX - 31)}),
       kData,
       {"tensor 'w'", "run past"}},
      {"one byte too few",
       with_tensors({raw_tensor("w", {64}, 0, 0)}, 255),
       kData,
       {"tensor 'w'", "256 bytes", "255 bytes"}},
      {"one byte too few of a K block",
       with_tensors({raw_tensor("w", {256}, 12, 0)}, 143),
       kData,
       {"tensor 'w'", "144 bytes", "143 bytes"}},
      {"K blocks overlap",
       with_tensors({raw_tensor("q", {256}, 14, 0), raw_tensor("w", {256}, 10, 192)}, 320),
       kData,
       {"tensor 'w'", "overlaps", "'q'"}},
      {"no data at all", no_data, kData, {"tensor 'w'", "0 bytes of the data section"}},
      {"a petabyte",
       with_tensors({raw_tensor("w", {uint64_t{1} << 48}, 0, 0)}),
       kData,
       {"tensor 'w'"}},
      {"same place",
       with_tensors({first, raw_tensor("w", {4}, 0, 64)}),
       kData,
       {"tensor 'w'", "overlaps", "'first'"}},
      {"overlap at the end",
       with_tensors({first, raw_tensor("w", {4}, 0, 96)}),
       kData,
       {"tensor 'w'", "overlaps", "'first'"}},
      {"overlap out of order",
       with_tensors({first, raw_tensor("w", {9}, 0, 32)}),
       kData,
       {"tensor 'first'", "overlaps", "'w'"}},
  });
}

TEST(GgufMalformed, TruncationAtEveryByte) {
  const std::string whole = small_gguf().bytes();
  ASSERT_TRUE(parse_bytes(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto checkpoint = parse_bytes(std::string_view(whole).substr(0, size));
    ASSERT_FALSE(checkpoint.ok()) << size;
    EXPECT_EQ(checkpoint.status().code(), kData) << checkpoint.status().message();
    EXPECT_NE(checkpoint.status().message().find("test.gguf: "), std::string::npos);
    EXPECT_NE(checkpoint.status().message().find(", at byte "), std::string::npos);
  }
}

}  // namespace
}  // namespace octavo::formats
