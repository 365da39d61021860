// FP8 linears: E4M3 codes with float scales, the input of the product rounded to E4M3. For the
// readers of schemes alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "quant/scheme.h"

namespace octavo::quant {

struct Fp8Format {
  // What has one scale: the matrix, a row, a run of block_cols values in a row, or block_rows x
  // block_cols values.
  enum class Scales { kTensor, kChannel, kGroup, kBlock };

  Scales scales = Scales::kTensor;
  int64_t block_rows = 0;
  int64_t block_cols = 0;
  std::string_view scale_name = "weight_scale";
  ops::InputRounding input = ops::InputRounding::kNone;
  int64_t input_group = 0;  // of kDynamicE4M3; 0: a whole row
  float input_limit = 0;    // of kDynamicE4M3: what saturates; 0: nothing

  std::string description() const;
};

bool holds_fp8(const TensorSource& source, std::string_view module, const Fp8Format& format);

Result<QuantizedMatrix> load_fp8(TensorSource& source, std::string_view module, int64_t rows,
                                 int64_t cols, const Fp8Format& format);

// A stack of matrices that lie transposed, [count, cols, rows], with one scale for each row of each
// in NAME_scale; nothing where it is not of this form.
Result<std::optional<QuantizedStack>> load_fp8_stack(TensorSource& source, std::string_view name,
                                                     int64_t count, int64_t rows, int64_t cols,
                                                     const Fp8Format& format);

// Rows of the table of schemes.
Result<std::unique_ptr<Scheme>> read_fp8(const Json& config, const std::string& source);
Result<std::unique_ptr<Scheme>> read_fbgemm_fp8(const Json& config, const std::string& source);

}  // namespace octavo::quant
