#include "quant/awq.h"

#include "base/check.h"
#include "base/format.h"
#include "quant/config_keys.h"
#include "quant/float_values.h"
#include "quant/int_groups.h"
#include "quant/module_names.h"

namespace octavo::quant {
namespace {

// Where in a word the code of each of eight neighbouring columns is.
constexpr uint8_t kPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};

class Awq final : public Scheme {
 public:
  Awq(IntFormat format, std::vector<std::string> excluded)
      : format_(format), excluded_(std::move(excluded)) {}

  std::string description() const override { return "awq: " + format_.description(); }

  bool holds(const TensorSource& source, std::string_view module) const override {
    return !name_any_module(excluded_, module) &&
           source.find(format("{}.qweight", module)) != nullptr;
  }

  // qweight [cols, rows / 8], qzeros [groups, rows / 8], scales [groups, rows].
  Result<QuantizedMatrix> load(TensorSource& source, std::string_view module, int64_t rows,
                               int64_t cols) const override {
    const int64_t groups = OCTAVO_TRY(count_groups(source, module, cols, format_));
    const int per_word = format_.codes_per_word();
    if (rows % per_word != 0) {
      return data_loss(format("{}: '{}': {} rows are not whole words of {} codes", source.path(),
                              module, rows, per_word));
    }
    IntMatrix matrix{format("{}.qweight", module), rows, cols};
    matrix.transposed = true;
    matrix.codes = OCTAVO_TRY(take_codes(source, matrix.name, {cols, rows / per_word}, format_));
    matrix.codes.place = kPlace;
    PackedCodes zeros = OCTAVO_TRY(
        take_codes(source, format("{}.qzeros", module), {groups, rows / per_word}, format_));
    zeros.place = kPlace;
    matrix.scales = OCTAVO_TRY(take_floats(source, format("{}.scales", module), {groups, rows}));
    for (int64_t group = 0; group < groups && !source.measures(); ++group) {
      for (int64_t row = 0; row < rows; ++row) {
        matrix.zeros.push_back(static_cast<int16_t>(zeros.at(group, row)));
      }
    }
    return pack_int_matrix(source, matrix, format_);
  }

 private:
  IntFormat format_;
  std::vector<std::string> excluded_;
};

}  // namespace

Result<std::unique_ptr<Scheme>> read_awq(const Json& config, const std::string& source) {
  const ConfigKeys keys(config, source);
  constexpr std::string_view kKnown[] = {
      "quant_method",    "bits",           "group_size",
      "zero_point",      "version",        "backend",
      "do_fuse",         "exllama_config", "fuse_max_seq_len",
      "modules_to_fuse", "desc_act",       "modules_to_not_convert"};
  keys.warn_of_others(kKnown);
  IntFormat int_format;
  if (OCTAVO_TRY(keys.integer("bits")) != 4) return keys.refuse("bits", "4");
  int_format.group_size = OCTAVO_TRY(keys.group_size("group_size"));
  if (!OCTAVO_TRY(keys.flag_or("zero_point", true))) return keys.refuse("zero_point", "true");
  const std::string version = OCTAVO_TRY(keys.text_or("version", "gemm"));
  if (version != "gemm" && version != "GEMM") return keys.refuse("version", "'gemm'");
  std::vector<std::string> excluded = OCTAVO_TRY(keys.texts("modules_to_not_convert"));
  return std::unique_ptr<Scheme>(std::make_unique<Awq>(int_format, std::move(excluded)));
}

}  // namespace octavo::quant
