#include "quant/gptq.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "quant/config_keys.h"
#include "quant/float_values.h"
#include "quant/int_groups.h"

namespace octavo::quant {
namespace {

class Gptq final : public Scheme {
 public:
  Gptq(IntFormat format, int zero_offset, bool act_order)
      : format_(format), zero_offset_(zero_offset), act_order_(act_order) {}

  std::string description() const override {
    return format("gptq: {}{}", format_.description(), act_order_ ? ", act order" : "");
  }

  bool holds(const TensorSource& source, std::string_view module) const override {
    return source.find(format("{}.qweight", module)) != nullptr;
  }

  // qweight [cols / n, rows], qzeros [groups, rows / n], scales [groups, rows], g_idx [cols], which
  // may be absent where the order of columns is theirs.
  Result<QuantizedMatrix> load(TensorSource& source, std::string_view module, int64_t rows,
                               int64_t cols) const override {
    const int64_t groups = OCTAVO_TRY(count_groups(source, module, cols, format_));
    const int per_word = format_.codes_per_word();
    if (rows % per_word != 0 || cols % per_word != 0) {
      return data_loss(format("{}: '{}': [{}, {}] are not whole words of {} codes", source.path(),
                              module, rows, cols, per_word));
    }
    IntMatrix matrix{format("{}.qweight", module), rows, cols};
    matrix.transposed = true;
    matrix.codes = OCTAVO_TRY(take_codes(source, matrix.name, {cols / per_word, rows}, format_));
    matrix.codes.along_rows = true;
    const std::string zeros_name = format("{}.qzeros", module);
    const PackedCodes zeros =
        OCTAVO_TRY(take_codes(source, zeros_name, {groups, rows / per_word}, format_));
    matrix.scales = OCTAVO_TRY(take_floats(source, format("{}.scales", module), {groups, rows}));
    const std::string index_name = format("{}.g_idx", module);
    if (act_order_ || source.find(index_name) != nullptr) {
      matrix.groups = OCTAVO_TRY(take_group_index(source, index_name, cols, groups));
    }
    if (!source.measures()) OCTAVO_TRY(read_zeros(source, zeros, matrix));
    return pack_int_matrix(source, matrix, format_);
  }

 private:
  Status read_zeros(const TensorSource& source, const PackedCodes& zeros, IntMatrix& matrix) const {
    const int64_t groups = zeros.words.shape[0];
    matrix.zeros.reserve(groups * matrix.rows);
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t row = 0; row < matrix.rows; ++row) {
        const int zero = zeros.at(group, row) + zero_offset_;
        if (format_.symmetric && zero != format_.middle()) {
          return data_loss(
              format("{}: tensor '{}' holds the zero point {}, which 'sym' says is {}; "
                     "'checkpoint_format' may be wrong",
                     source.path(), zeros.words.name, zero, format_.middle()));
        }
        matrix.zeros.push_back(static_cast<int16_t>(zero));
      }
    }
    return {};
  }

  IntFormat format_;
  int zero_offset_;  // what v1 files subtract from zero points
  bool act_order_;
};

// What tools note about how they made the file.
constexpr std::string_view kKnown[] = {"quant_method",
                                       "bits",
                                       "group_size",
                                       "desc_act",
                                       "sym",
                                       "checkpoint_format",
                                       "dynamic",
                                       "is_marlin_format",
                                       "lm_head",
                                       "act_group_aware",
                                       "backend",
                                       "batch_size",
                                       "block_name_to_quantize",
                                       "cache_block_outputs",
                                       "damp_auto_increment",
                                       "damp_percent",
                                       "dataset",
                                       "disable_exllama",
                                       "exllama_config",
                                       "format",
                                       "max_input_length",
                                       "meta",
                                       "model_file_base_name",
                                       "model_name_or_path",
                                       "model_seqlen",
                                       "module_name_preceding_first_block",
                                       "modules_in_block_to_quantize",
                                       "mse",
                                       "pack_dtype",
                                       "pad_token_id",
                                       "static_groups",
                                       "tokenizer",
                                       "true_sequential",
                                       "use_cuda_fp16",
                                       "use_exllama"};

}  // namespace

Result<std::unique_ptr<Scheme>> read_gptq(const Json& config, const std::string& source) {
  const ConfigKeys keys(config, source);
  keys.warn_of_others(kKnown);
  const int64_t bits = OCTAVO_TRY(keys.integer("bits"));
  if (bits != 4 && bits != 8) return keys.refuse("bits", "4 and 8");
  IntFormat int_format;
  int_format.bits = static_cast<int>(bits);
  int_format.group_size = OCTAVO_TRY(keys.group_size("group_size"));
  int_format.symmetric = OCTAVO_TRY(keys.flag_or("sym", true));
  OCTAVO_TRY(keys.refuse_if_set("dynamic"));  // other bits for some modules
  OCTAVO_TRY(keys.refuse_if_set("is_marlin_format"));
  if (OCTAVO_TRY(keys.text_or("pack_dtype", "int32")) != "int32") {
    return keys.refuse("pack_dtype", "'int32'");
  }
  const char* key = keys.find("checkpoint_format") == nullptr ? "format" : "checkpoint_format";
  const std::string version = OCTAVO_TRY(keys.text_or(key, "gptq"));
  if (version != "gptq" && version != "gptq_v2") return keys.refuse(key, "'gptq' and 'gptq_v2'");
  const bool act_order = OCTAVO_TRY(keys.flag_or("desc_act", false));
  return std::unique_ptr<Scheme>(
      std::make_unique<Gptq>(int_format, version == "gptq" ? 1 : 0, act_order));
}

}  // namespace octavo::quant
