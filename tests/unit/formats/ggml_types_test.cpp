#include "formats/ggml_types.h"

#include <gtest/gtest.h>

#include <set>

namespace octavo::formats {
namespace {

TEST(GgmlTypes, AgreeWithTheTensorTypes) {
  for (const GgmlType& type : ggml_types()) {
    SCOPED_TRACE(type.name);
    EXPECT_EQ(type.dtype.has_value(), type.support == GgmlSupport::kSupported);
    EXPECT_EQ(find_ggml_type(type.id), &type);
    if (!type.dtype) continue;
    EXPECT_EQ(dtype_traits(*type.dtype).block_size, type.block_size);
    EXPECT_EQ(dtype_traits(*type.dtype).block_bytes, type.block_bytes);
    EXPECT_EQ(ggml_type_of(*type.dtype), &type);
  }
}

TEST(GgmlTypes, HaveBlocksUnlessRemoved) {
  std::set<std::string_view> names;
  for (const GgmlType& type : ggml_types()) {
    EXPECT_TRUE(names.insert(type.name).second) << type.name;
    EXPECT_EQ(type.block_size == 0, type.support == GgmlSupport::kRemoved) << type.name;
    EXPECT_EQ(type.block_bytes == 0, type.support == GgmlSupport::kRemoved) << type.name;
  }
}

TEST(GgmlTypes, UnknownIdsAndTypesHaveNone) {
  EXPECT_EQ(find_ggml_type(static_cast<uint32_t>(ggml_types().size())), nullptr);
  EXPECT_EQ(find_ggml_type(UINT32_MAX), nullptr);
  EXPECT_EQ(ggml_type_of(DType::kU8), nullptr);
}

}  // namespace
}  // namespace octavo::formats
