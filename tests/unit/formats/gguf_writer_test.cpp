#include "formats/gguf_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "formats/ggml_types.h"
#include "gguf_bytes.h"
#include "support/temp_path.h"

namespace octavo::formats {
namespace {

class GgufWriterTest : public ::testing::Test {
 protected:
  // Whether there is anything besides the target.
  bool partial_exists() const {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path())) {
      if (entry.path() != path_) return true;
    }
    return false;
  }

  const std::string path_ = testing::temp_path("written.gguf");
};

// Writes what `checkpoint` holds, the data in pieces of `piece_bytes`.
Status rewrite(const GgufCheckpoint& checkpoint, const std::string& path, size_t piece_bytes) {
  GgufWriter writer;
  size_t i = 0;
  for (const auto& entry : checkpoint.metadata().get_object()) {
    const Status status = writer.add_metadata({entry.key().data(), entry.key().size()},
                                              checkpoint.metadata_types()[i++], entry.value());
    if (!status.ok()) return status;
  }
  std::vector<std::byte> data;
  for (const TensorInfo& info : checkpoint.tensors()) {
    const Status status = writer.add_tensor(info.name, info.dtype, info.shape);
    if (!status.ok()) return status;
    const Tensor tensor = checkpoint.tensor(info);
    data.insert(data.end(), tensor.data, tensor.data + tensor.size_bytes());
  }
  Status status = writer.open(path);
  for (size_t at = 0; status.ok() && at < data.size(); at += piece_bytes) {
    status = writer.write(std::span(data).subspan(at, std::min(piece_bytes, data.size() - at)));
  }
  return status.ok() ? writer.close() : status;
}

TEST_F(GgufWriterTest, WritesThePythonPackagesBytes) {
  const std::string golden = OCTAVO_TEST_DATA "/gguf/all_types.gguf";
  const std::string expected = read_file(golden);
  const auto checkpoint = parse_bytes(expected);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  for (const size_t piece_bytes : {size_t{1}, size_t{7}, size_t{64}, size_t{1} << 20}) {
    const Status status = rewrite(**checkpoint, path_, piece_bytes);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(read_file(path_), expected) << piece_bytes;
    EXPECT_FALSE(partial_exists());
  }
}

TEST_F(GgufWriterTest, RewritesAVocabularyFile) {
  const std::string original = OCTAVO_TEST_DATA "/vocabs/ggml-vocab-gpt-2.gguf";
  const auto opened = open_checkpoint(original);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Status status = rewrite(dynamic_cast<const GgufCheckpoint&>(**opened), path_, 1);
  ASSERT_TRUE(status.ok()) << status.message();
  std::string bytes = read_file(original);
  const size_t size = bytes.size();
  bytes.resize((size + 31) / 32 * 32);  // the original is not padded after its last key
  EXPECT_EQ(read_file(path_), bytes);
}

TEST_F(GgufWriterTest, RoundTripsEveryTensorType) {
  GgufWriter writer;
  std::vector<DType> dtypes;
  std::string data;
  for (const GgmlType& type : ggml_types()) {
    if (!type.dtype) continue;
    const Shape shape = {2, 3, int64_t{2} * type.block_size};
    ASSERT_TRUE(writer.add_tensor(type.name, *type.dtype, shape).ok()) << type.name;
    dtypes.push_back(*type.dtype);
    data += std::string(size_t{12} * type.block_bytes, static_cast<char>(type.id + 1));
  }
  EXPECT_EQ(dtypes.size(), 33u);
  ASSERT_TRUE(writer.open(path_).ok());
  ASSERT_TRUE(writer.write(std::as_bytes(std::span(data))).ok());
  ASSERT_TRUE(writer.close().ok());

  const auto checkpoint = open_checkpoint(path_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  ASSERT_EQ((*checkpoint)->tensors().size(), dtypes.size());
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const TensorInfo& info = (*checkpoint)->tensors()[i];
    SCOPED_TRACE(info.name);
    EXPECT_EQ(info.dtype, dtypes[i]);
    EXPECT_EQ(info.shape[2], 2 * dtype_traits(dtypes[i]).block_size);
    const Tensor tensor = (*checkpoint)->tensor(info);
    for (int64_t k = 0; k < tensor.size_bytes(); ++k) {
      ASSERT_EQ(std::to_integer<uint32_t>(tensor.data[k]), ggml_type_of(info.dtype)->id + 1);
    }
  }
}

TEST_F(GgufWriterTest, RefusesValuesThatDoNotFit) {
  struct {
    GgufType type;
    Json value;
  } const cases[] = {
      {{GgufKind::kU8}, 256},
      {{GgufKind::kU8}, -1},
      {{GgufKind::kI8}, 128},
      {{GgufKind::kU16}, 65536},
      {{GgufKind::kI16}, -32769},
      {{GgufKind::kU32}, int64_t{1} << 32},
      {{GgufKind::kI32}, int64_t{1} << 31},
      {{GgufKind::kU64}, -1},
      {{GgufKind::kI64}, UINT64_MAX},
      {{GgufKind::kI64}, 1.0},
      {{GgufKind::kF32}, 1e39},
      {{GgufKind::kF64}, "1"},
      {{GgufKind::kBool}, 1},
      {{GgufKind::kString}, nullptr},
      {{GgufKind::kArray, GgufKind::kU8}, 1},
      {{GgufKind::kArray, GgufKind::kU8}, JsonArray{1, 256}},
      {{GgufKind::kArray, GgufKind::kString}, JsonArray{"a", 1}},
      {{GgufKind::kArray, GgufKind::kArray}, JsonArray{}},
  };
  GgufWriter writer;
  for (const auto& c : cases) {
    const Status status = writer.add_metadata("the.key", c.type, c.value);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << gguf_type_name(c.type);
    EXPECT_NE(status.message().find("the.key"), std::string::npos) << status.message();
  }
  EXPECT_TRUE(writer.add_metadata("the.key", {GgufKind::kU8}, 255).ok());
  EXPECT_FALSE(writer.add_metadata("the.key", {GgufKind::kU8}, 255).ok());
  EXPECT_FALSE(writer.add_metadata("", {GgufKind::kU8}, 1).ok());
  for (const Json& alignment : {Json(4), Json(48), Json(1 << 21)}) {
    EXPECT_FALSE(writer.add_metadata("general.alignment", {GgufKind::kU32}, alignment).ok());
  }
  EXPECT_FALSE(writer.add_metadata("general.alignment", {GgufKind::kU64}, 64).ok());
}

TEST_F(GgufWriterTest, KeepsNanAndInfinity) {
  GgufWriter writer;
  const double infinity = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(writer
                  .add_metadata("f", {GgufKind::kArray, GgufKind::kF32},
                                JsonArray{infinity, -infinity, std::nan("")})
                  .ok());
  ASSERT_TRUE(writer.open(path_).ok());
  ASSERT_TRUE(writer.close().ok());
  const auto checkpoint = open_checkpoint(path_);
  ASSERT_TRUE(checkpoint.ok());
  const JsonArray& values = (*checkpoint)->metadata().at("f").get_array();
  EXPECT_EQ(values[0].get_double(), infinity);
  EXPECT_EQ(values[1].get_double(), -infinity);
  EXPECT_TRUE(std::isnan(values[2].get_double()));
}

TEST_F(GgufWriterTest, RefusesTensorsThatGgufCannotHold) {
  struct {
    std::string name;
    DType dtype;
    Shape shape;
  } const cases[] = {
      {"", DType::kF32, {1}},
      {std::string(64, 'n'), DType::kF32, {1}},
      {"bytes", DType::kU8, {1}},
      {"scalar", DType::kF32, {}},
      {"five", DType::kF32, {1, 1, 1, 1, 1}},
      {"zero", DType::kF32, {4, 0}},
      {"negative", DType::kF32, {-1}},
      {"overflow", DType::kF32, {int64_t{1} << 32, int64_t{1} << 31}},
      {"overflow.bytes", DType::kF64, {int64_t{1} << 61, 2}},
      {"row", DType::kQ8_0, {32, 33}},
  };
  GgufWriter writer;
  for (const auto& c : cases) {
    EXPECT_FALSE(writer.add_tensor(c.name, c.dtype, c.shape).ok()) << c.name;
  }
  EXPECT_TRUE(writer.add_tensor(std::string(63, 'n'), DType::kF32, {1}).ok());
  EXPECT_FALSE(writer.add_tensor(std::string(63, 'n'), DType::kF32, {1}).ok());
}

TEST_F(GgufWriterTest, LeavesNoFileThatIsNotWhole) {
  const std::vector<std::byte> data(16);
  {
    GgufWriter writer;
    ASSERT_TRUE(writer.add_tensor("t", DType::kF32, {4}).ok());
    ASSERT_TRUE(writer.open(path_).ok());
    ASSERT_TRUE(writer.write(std::span(data).first(15)).ok());
    const Status status = writer.close();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("'t': 15 of 16"), std::string::npos) << status.message();
    EXPECT_TRUE(partial_exists());
  }
  EXPECT_FALSE(partial_exists());
  EXPECT_FALSE(std::filesystem::exists(path_));
  GgufWriter writer;
  ASSERT_TRUE(writer.open(path_).ok());
  EXPECT_FALSE(writer.write(data).ok());  // no tensor was declared
}

TEST_F(GgufWriterTest, SaysWhichFileCannotBeCreated) {
  GgufWriter writer;
  const Status status = writer.open(testing::temp_path("no/such/folder/x.gguf"));
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("no/such/folder/x.gguf"), std::string::npos);
}

}  // namespace
}  // namespace octavo::formats
