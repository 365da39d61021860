#include "quant/int_groups.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "ops/blocks.h"
#include "quant/float_values.h"
#include "tensor/float16.h"

namespace octavo::quant {
namespace {

constexpr int64_t kBlock = ops::kBlockValues;

// The type whose blocks hold the differences code - zero, of n bits where the zero point is the
// middle, of one more elsewhere; kF32 where there is none.
DType held_type(const IntFormat& format, int64_t cols, int64_t num_groups) {
  const bool whole_blocks = cols % kBlock == 0 && (cols / num_groups) % kBlock == 0;
  if (!whole_blocks) return DType::kF32;
  if (format.bits == 4) return format.symmetric ? DType::kQ4_0 : DType::kQ5_0;
  return format.symmetric ? DType::kQ8_0 : DType::kF32;
}

void write_block(std::byte* dst, DType type, uint16_t d, const int16_t (&values)[kBlock]) {
  if (type == DType::kQ4_0) {
    ops::BlockQ4_0 block{d, {}};
    for (int j = 0; j < 16; ++j) {
      block.qs[j] = static_cast<uint8_t>((values[j] + 8) | (values[j + 16] + 8) << 4);
    }
    std::memcpy(dst, &block, sizeof(block));
  } else if (type == DType::kQ5_0) {
    ops::BlockQ5_0 block{d, {}, {}};
    uint32_t high = 0;
    for (int j = 0; j < 16; ++j) {
      const int low_code = values[j] + 16;
      const int high_code = values[j + 16] + 16;
      block.qs[j] = static_cast<uint8_t>((low_code & 15) | (high_code & 15) << 4);
      high |= static_cast<uint32_t>(low_code >> 4) << j;
      high |= static_cast<uint32_t>(high_code >> 4) << (j + 16);
    }
    std::memcpy(block.qh, &high, sizeof(high));
    std::memcpy(dst, &block, sizeof(block));
  } else {
    ops::BlockQ8_0 block{d, {}};
    for (int j = 0; j < kBlock; ++j) block.qs[j] = static_cast<int8_t>(values[j]);
    std::memcpy(dst, &block, sizeof(block));
  }
}

class Packer {
 public:
  Packer(const IntMatrix& matrix, int64_t group_size, std::vector<int32_t> order)
      : matrix_(matrix), group_size_(group_size), order_(std::move(order)) {}

  // Down the rows within a block of columns: that is how transposed codes lie in memory.
  void pack_blocks(std::byte* dst, DType type, ThreadPool* pool) const {
    in_parts(pool, matrix_.cols / kBlock, [&](int64_t first, int64_t end) {
      for (int64_t block = first; block < end; ++block) pack_column(block, dst, type);
    });
  }

  void pack_floats(std::byte* dst, ThreadPool* pool) const {
    in_parts(pool, matrix_.rows, [&](int64_t first, int64_t end) {
      for (int64_t row = first; row < end; ++row) {
        pack_float_row(row, dst + row * matrix_.cols * static_cast<int64_t>(sizeof(float)));
      }
    });
  }

 private:
  template <typename Part>
  static void in_parts(ThreadPool* pool, int64_t count, const Part& part) {
    auto run = [&](int64_t first, int64_t end, int) { part(first, end); };
    if (pool != nullptr) {
      pool->parallel_for(count, 1, run);
    } else {
      run(0, count, 0);
    }
  }

  // A block of every row.
  void pack_column(int64_t block, std::byte* dst, DType type) const {
    const int64_t row_bytes = dtype_bytes(type, matrix_.cols);
    const int64_t begin = block * kBlock;
    const int64_t offset = dtype_bytes(type, begin);
    for (int64_t row = 0; row < matrix_.rows; ++row) {
      const int64_t at = begin / group_size_ * matrix_.rows + row;
      int16_t values[kBlock];
      for (int64_t j = 0; j < kBlock; ++j) {
        values[j] = static_cast<int16_t>(code(row, begin + j) - matrix_.zeros[at]);
      }
      write_block(dst + row * row_bytes + offset, type, float_to_fp16(matrix_.scales[at]), values);
    }
  }

  void pack_float_row(int64_t row, std::byte* dst) const {
    for (int64_t col = 0; col < matrix_.cols; ++col) {
      const int64_t at = col / group_size_ * matrix_.rows + row;
      const float value =
          static_cast<float>(code(row, col) - matrix_.zeros[at]) * matrix_.scales[at];
      std::memcpy(dst, &value, sizeof(value));
      dst += sizeof(value);
    }
  }

  int code(int64_t row, int64_t col) const {
    const int64_t source = order_.empty() ? col : order_[col];
    return matrix_.transposed ? matrix_.codes.at(source, row) : matrix_.codes.at(row, source);
  }

  const IntMatrix& matrix_;
  int64_t group_size_;
  std::vector<int32_t> order_;
};

std::vector<int32_t> columns_by_group(const std::vector<int32_t>& groups) {
  std::vector<int32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return groups[a] < groups[b]; });
  return order;
}

}  // namespace

std::string IntFormat::description() const {
  return format("int{} {}, {}", bits,
                group_size == 0 ? "with one scale a row" : format("in groups of {}", group_size),
                symmetric ? "symmetric" : "with zero points");
}

int PackedCodes::at(int64_t row, int64_t col) const {
  const int per_word = 32 / bits;
  const int64_t packed = along_rows ? row : col;
  const int64_t word_row = along_rows ? row / per_word : row;
  const int64_t word_col = along_rows ? col : col / per_word;
  uint32_t word;
  std::memcpy(&word, words.data + (word_row * words.shape[1] + word_col) * sizeof(word),
              sizeof(word));
  const auto index = static_cast<int>(packed % per_word);
  const int slot = place == nullptr ? index : place[index];
  return static_cast<int>(word >> (bits * slot) & ((1u << bits) - 1));
}

Result<PackedCodes> take_codes(TensorSource& source, const std::string& name, const Shape& shape,
                               const IntFormat& format) {
  PackedCodes codes;
  codes.words = OCTAVO_TRY(source.take(name, shape));
  codes.bits = format.bits;
  if (codes.words.dtype != DType::kI32) return wrong_type(source, codes.words, DType::kI32);
  return codes;
}

Result<int64_t> count_groups(const TensorSource& source, std::string_view module, int64_t cols,
                             const IntFormat& int_format) {
  const int64_t size = int_format.group_size == 0 ? cols : int_format.group_size;
  if (cols % size != 0) {
    return data_loss(format("{}: '{}': rows of {} values are not whole groups of {}", source.path(),
                            module, cols, size));
  }
  return cols / size;
}

Result<std::vector<int32_t>> take_group_index(TensorSource& source, const std::string& name,
                                              int64_t cols, int64_t num_groups) {
  const Tensor tensor = OCTAVO_TRY(source.take(name, {cols}));
  if (tensor.dtype != DType::kI32) return wrong_type(source, tensor, DType::kI32);
  std::vector<int32_t> groups;
  if (source.measures()) return groups;
  groups.resize(cols);
  std::memcpy(groups.data(), tensor.data, cols * sizeof(int32_t));
  std::vector<int64_t> sizes(num_groups);
  bool runs = true;
  for (int64_t i = 0; i < cols; ++i) {
    if (groups[i] < 0 || groups[i] >= num_groups) {
      return data_loss(format("{}: tensor '{}' holds {} at {}, but there are {} groups",
                              source.path(), name, groups[i], i, num_groups));
    }
    ++sizes[groups[i]];
    runs &= groups[i] == i / (cols / num_groups);
  }
  for (int64_t group = 0; group < num_groups; ++group) {
    if (sizes[group] == cols / num_groups) continue;
    return data_loss(format("{}: tensor '{}' puts {} columns into group {}, which must have {}",
                            source.path(), name, sizes[group], group, cols / num_groups));
  }
  if (runs) groups.clear();
  return groups;
}

Result<QuantizedMatrix> pack_int_matrix(const TensorSource& source, const IntMatrix& matrix,
                                        const IntFormat& int_format) {
  const int64_t group_size = int_format.group_size == 0 ? matrix.cols : int_format.group_size;
  QuantizedMatrix result;
  DType type = held_type(int_format, matrix.cols, matrix.cols / group_size);
  result.tensor = {matrix.name, type, {matrix.rows, matrix.cols}, nullptr, nullptr};
  if (type != DType::kF32 && int_format.bits == 4) result.group = group_size;
  if (source.measures()) return result;
  const bool half_scales = std::all_of(matrix.scales.begin(), matrix.scales.end(), [](float s) {
    return fp16_to_float(float_to_fp16(s)) == s;
  });
  if (type != DType::kF32 && !half_scales) {
    log_warning("{}: tensor '{}' has scales that float16 cannot hold; it is kept in float32",
                source.path(), matrix.name);
    type = result.tensor.dtype = DType::kF32;
    result.group = 0;
  }
  if (!matrix.groups.empty()) result.input_order = columns_by_group(matrix.groups);
  auto bytes =
      std::make_shared<std::vector<std::byte>>(matrix.rows * dtype_bytes(type, matrix.cols));
  const Packer packer(matrix, group_size, result.input_order);
  if (type == DType::kF32) {
    packer.pack_floats(bytes->data(), source.pool());
  } else {
    packer.pack_blocks(bytes->data(), type, source.pool());
  }
  result.tensor.data = bytes->data();
  result.tensor.owner = std::move(bytes);
  return result;
}

}  // namespace octavo::quant
