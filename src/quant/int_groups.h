// Linears of 4-bit or 8-bit integers in groups along a row, each with a scale and perhaps a zero
// point: value = (code - zero) * scale. Every layout that such codes are stored in becomes blocks
// of GGUF's types, whose values are the same, bit for bit. For the readers of schemes alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/scheme.h"

namespace octavo::quant {

struct IntFormat {
  int bits = 4;            // 4 or 8
  int64_t group_size = 0;  // 0: a whole row
  bool symmetric = false;  // every zero point is half of the range

  int codes_per_word() const { return 32 / bits; }
  int middle() const { return 1 << (bits - 1); }
  std::string description() const;
};

// Codes packed into 32-bit words along rows or columns of a matrix; the first of a word is in its
// lowest bits unless `place` says otherwise.
struct PackedCodes {
  Tensor words;  // kI32, two-dimensional
  int bits = 4;
  bool along_rows = false;         // a word holds neighbours in a column: words [rows / n, cols]
  const uint8_t* place = nullptr;  // [codes in a word]: where each is

  int at(int64_t row, int64_t col) const;
};

// One linear, ready to be packed.
struct IntMatrix {
  std::string name;  // of the tensor with the codes
  int64_t rows = 0;
  int64_t cols = 0;
  PackedCodes codes;
  bool transposed = false;      // codes are [cols, rows]
  std::vector<float> scales;    // [groups, rows]
  std::vector<int16_t> zeros;   // [groups, rows]
  std::vector<int32_t> groups;  // [cols]: the group of each column; empty: runs of group_size
};

// Takes a matrix of packed codes: `name` [rows, cols] in words.
Result<PackedCodes> take_codes(TensorSource& source, const std::string& name, const Shape& shape,
                               const IntFormat& format);

// The number of groups in a row; an error where they do not divide it.
Result<int64_t> count_groups(const TensorSource& source, std::string_view module, int64_t cols,
                             const IntFormat& format);

// The groups that columns belong to, as a g_idx says: in range, each of the right size. Empty where
// they are runs anyhow, and where the source measures.
Result<std::vector<int32_t>> take_group_index(TensorSource& source, const std::string& name,
                                              int64_t cols, int64_t num_groups);

// Blocks where the groups consist of whole ones, else floats. Columns are sorted by group, which
// the result's input_order undoes.
Result<QuantizedMatrix> pack_int_matrix(const TensorSource& source, const IntMatrix& matrix,
                                        const IntFormat& format);

}  // namespace octavo::quant
