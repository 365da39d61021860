#include "quant/compressed_tensors.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "base/check.h"
#include "base/format.h"
#include "quant/config_keys.h"
#include "quant/float_values.h"
#include "quant/fp8.h"
#include "quant/int_groups.h"
#include "quant/module_names.h"

namespace octavo::quant {
namespace {

// Modules that are stored alike.
struct Group {
  std::vector<std::string> targets;
  std::variant<Fp8Format, IntFormat> format;
};

// An entry of `targets` or `ignore`: a module's whole name, a class of modules, of which linears
// are all that is asked about, or a pattern.
Result<bool> entry_matches(const std::string& entry, std::string_view module) {
  if (entry.starts_with("re:")) return matches_pattern(std::string_view(entry).substr(3), module);
  return entry == module || entry == "Linear";
}

Result<bool> any_matches(const std::vector<std::string>& entries, std::string_view module) {
  for (const std::string& entry : entries) {
    if (OCTAVO_TRY(entry_matches(entry, module))) return true;
  }
  return false;
}

// The entries of a list of modules, every pattern of which is understood.
Result<std::vector<std::string>> read_entries(const ConfigKeys& keys, std::string_view key) {
  std::vector<std::string> entries = OCTAVO_TRY(keys.texts(key));
  for (const std::string& entry : entries) {
    const auto matched = entry_matches(entry, "");
    if (matched.ok()) continue;
    return unsupported(format("{}: {}: {}", keys.source(), key, matched.status().message()));
  }
  return entries;
}

// The shape that the packed codes had, as the file says it beside them.
Status check_shape(TensorSource& source, const std::string& name, int64_t rows, int64_t cols) {
  const Tensor tensor = OCTAVO_TRY(source.take(name, {2}));
  if (source.measures()) return {};
  int64_t shape[2] = {-1, -1};
  if (tensor.dtype == DType::kI64) {
    std::memcpy(shape, tensor.data, sizeof(shape));
  } else if (tensor.dtype == DType::kI32) {
    int32_t narrow[2];
    std::memcpy(narrow, tensor.data, sizeof(narrow));
    std::copy_n(narrow, 2, shape);
  }
  if (shape[0] == rows && shape[1] == cols) return {};
  return data_loss(format("{}: tensor '{}' says [{}, {}], which must be [{}, {}]", source.path(),
                          name, shape[0], shape[1], rows, cols));
}

// weight_packed [rows, words], weight_scale [rows, groups], weight_shape [2]; weight_zero_point
// [words, groups] unless symmetric; weight_g_idx [cols] where columns are ordered by activation.
Result<QuantizedMatrix> load_packed(TensorSource& source, std::string_view module, int64_t rows,
                                    int64_t cols, const IntFormat& int_format) {
  const auto name = [&](const char* part) { return format("{}.weight_{}", module, part); };
  const int64_t groups = OCTAVO_TRY(count_groups(source, module, cols, int_format));
  const int64_t per_word = int_format.codes_per_word();
  OCTAVO_TRY(check_shape(source, name("shape"), rows, cols));
  IntMatrix matrix{name("packed"), rows, cols};
  matrix.codes = OCTAVO_TRY(
      take_codes(source, matrix.name, {rows, (cols + per_word - 1) / per_word}, int_format));
  const std::vector<float> scales = OCTAVO_TRY(take_floats(source, name("scale"), {rows, groups}));
  PackedCodes zeros;
  if (!int_format.symmetric) {
    zeros = OCTAVO_TRY(take_codes(source, name("zero_point"),
                                  {(rows + per_word - 1) / per_word, groups}, int_format));
    zeros.along_rows = true;
  }
  if (source.find(name("g_idx")) != nullptr) {
    matrix.groups = OCTAVO_TRY(take_group_index(source, name("g_idx"), cols, groups));
  }
  for (int64_t group = 0; group < groups && !source.measures(); ++group) {
    for (int64_t row = 0; row < rows; ++row) {
      const int zero = int_format.symmetric ? int_format.middle() : zeros.at(row, group);
      matrix.scales.push_back(scales[row * groups + group]);
      matrix.zeros.push_back(static_cast<int16_t>(zero));
    }
  }
  return pack_int_matrix(source, matrix, int_format);
}

class CompressedTensors final : public Scheme {
 public:
  CompressedTensors(std::vector<Group> groups, std::vector<std::string> ignore)
      : groups_(std::move(groups)), ignore_(std::move(ignore)) {}

  std::string description() const override {
    std::string text = "compressed-tensors: ";
    for (const Group& group : groups_) {
      if (&group != &groups_[0]) text += " | ";
      text += std::visit([](const auto& f) { return f.description(); }, group.format);
    }
    return text;
  }

  bool holds(const TensorSource& source, std::string_view module) const override {
    const Group* group = group_of(module);
    if (group == nullptr) return false;
    if (const auto* fp8 = std::get_if<Fp8Format>(&group->format)) {
      return holds_fp8(source, module, *fp8);
    }
    return source.find(format("{}.weight_packed", module)) != nullptr;
  }

  Result<QuantizedMatrix> load(TensorSource& source, std::string_view module, int64_t rows,
                               int64_t cols) const override {
    const Group* group = group_of(module);
    OCTAVO_CHECK(group != nullptr);
    if (const auto* fp8 = std::get_if<Fp8Format>(&group->format)) {
      return load_fp8(source, module, rows, cols, *fp8);
    }
    return load_packed(source, module, rows, cols, std::get<IntFormat>(group->format));
  }

  Result<std::optional<QuantizedStack>> load_stack(TensorSource& source, std::string_view name,
                                                   int64_t count, int64_t rows,
                                                   int64_t cols) const override {
    const Group* group = group_of(name);
    const auto* fp8 = group == nullptr ? nullptr : std::get_if<Fp8Format>(&group->format);
    if (fp8 == nullptr) return std::optional<QuantizedStack>();
    return load_fp8_stack(source, name, count, rows, cols, *fp8);
  }

 private:
  // A pattern that takes too long matches nothing; that it is one at all was checked.
  static bool matches(const std::vector<std::string>& entries, std::string_view module) {
    const auto result = any_matches(entries, module);
    return result.ok() && result.value();
  }

  const Group* group_of(std::string_view module) const {
    if (matches(ignore_, module)) return nullptr;
    const Group* found = nullptr;
    for (const Group& group : groups_) {
      if (!matches(group.targets, module)) continue;
      const bool by_class =
          std::find(group.targets.begin(), group.targets.end(), "Linear") != group.targets.end();
      if (!by_class) return &group;
      if (found == nullptr) found = &group;
    }
    return found;
  }

  std::vector<Group> groups_;
  std::vector<std::string> ignore_;
};

constexpr std::string_view kKnownArguments[] = {
    "num_bits", "type",     "strategy",        "symmetric",   "dynamic",  "group_size",
    "actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype", "block_structure"};

// An object below a group, e.g. "weights"; nullptr where it is absent.
Result<const Json*> arguments(const ConfigKeys& group, std::string_view key) {
  const Json* found = group.find(key);
  if (found != nullptr && !found->is_object()) {
    return data_loss(format("{}: '{}' must be an object", group.source(), key));
  }
  if (found != nullptr) {
    ConfigKeys(*found, format("{}: {}", group.source(), key)).warn_of_others(kKnownArguments);
  }
  return found;
}

// block_structure is [rows, cols] or "rowsxcols".
Status read_block_structure(const ConfigKeys& keys, int64_t& rows, int64_t& cols) {
  const Json* value = keys.find("block_structure");
  if (value != nullptr && value->is_string() && to_view(value->get_string()) == "128x128") {
    rows = cols = 128;
    return {};
  }
  if (value == nullptr || !value->is_array() || value->get_array().size() != 2) {
    return keys.refuse("block_structure", "a list of two sizes");
  }
  const auto extent = [&](size_t i) {
    const Json& size = value->get_array()[i];
    return size.is_int64() && size.get_int64() <= INT32_MAX ? size.get_int64() : 0;
  };
  rows = extent(0);
  cols = extent(1);
  if (rows < 1 || cols < 1) return keys.refuse("block_structure", "two positive sizes");
  return {};
}

Status read_fp8_input(const ConfigKeys& group, Fp8Format& fp8) {
  const Json* json = OCTAVO_TRY(arguments(group, "input_activations"));
  if (json == nullptr) return {};
  const ConfigKeys keys(*json, format("{}: input_activations", group.source()));
  if (OCTAVO_TRY(keys.integer("num_bits")) != 8) return keys.refuse("num_bits", "8 with FP8");
  if (OCTAVO_TRY(keys.text_or("type", "int")) != "float") return keys.refuse("type", "'float'");
  if (!OCTAVO_TRY(keys.flag_or("symmetric", true))) return keys.refuse("symmetric", "true");
  const bool dynamic = OCTAVO_TRY(keys.flag_or("dynamic", false));
  const std::string strategy = OCTAVO_TRY(keys.text_or("strategy", "tensor"));
  if (strategy == "tensor" && !dynamic) {
    fp8.input = ops::InputRounding::kStaticE4M3;
    return {};
  }
  if ((strategy != "token" && strategy != "group") || !dynamic) {
    return keys.refuse("strategy", "'tensor' where 'dynamic' is false, 'token' and 'group' else");
  }
  fp8.input = ops::InputRounding::kDynamicE4M3;
  if (strategy == "group") fp8.input_group = OCTAVO_TRY(keys.group_size("group_size"));
  return {};
}

Result<Fp8Format> read_fp8_group(const ConfigKeys& group, const ConfigKeys& weights) {
  if (OCTAVO_TRY(weights.integer("num_bits")) != 8)
    return weights.refuse("num_bits", "8 of floats");
  if (!OCTAVO_TRY(weights.flag_or("symmetric", true))) return weights.refuse("symmetric", "true");
  Fp8Format fp8;
  const std::string strategy = OCTAVO_TRY(weights.text_or("strategy", "tensor"));
  if (strategy == "channel") {
    fp8.scales = Fp8Format::Scales::kChannel;
  } else if (strategy == "group") {
    fp8.scales = Fp8Format::Scales::kGroup;
    fp8.block_cols = OCTAVO_TRY(weights.group_size("group_size"));
    if (fp8.block_cols == 0) fp8.scales = Fp8Format::Scales::kChannel;
  } else if (strategy == "block") {
    fp8.scales = Fp8Format::Scales::kBlock;
    OCTAVO_TRY(read_block_structure(weights, fp8.block_rows, fp8.block_cols));
  } else if (strategy != "tensor") {
    return weights.refuse("strategy", "'tensor', 'channel', 'group' and 'block'");
  }
  OCTAVO_TRY(read_fp8_input(group, fp8));
  return fp8;
}

Result<IntFormat> read_int_group(const ConfigKeys& group, const ConfigKeys& weights) {
  IntFormat int_format;
  const int64_t bits = OCTAVO_TRY(weights.integer("num_bits"));
  if (bits != 4 && bits != 8) return weights.refuse("num_bits", "4 and 8");
  int_format.bits = static_cast<int>(bits);
  int_format.symmetric = OCTAVO_TRY(weights.flag_or("symmetric", true));
  const std::string strategy = OCTAVO_TRY(weights.text_or("strategy", "tensor"));
  if (strategy == "group") {
    int_format.group_size = OCTAVO_TRY(weights.group_size("group_size"));
  } else if (strategy != "channel") {
    return weights.refuse("strategy", "'group' and 'channel'");
  }
  OCTAVO_TRY(group.refuse_if_set("input_activations"));
  return int_format;
}

// `form` is the format of the whole, which a group may override.
Result<Group> read_group(const ConfigKeys& keys, const std::string& form) {
  constexpr std::string_view kKnown[] = {"targets", "weights", "input_activations",
                                         "output_activations", "format"};
  keys.warn_of_others(kKnown);
  OCTAVO_TRY(keys.refuse_if_set("output_activations"));
  Group group;
  group.targets = OCTAVO_TRY(read_entries(keys, "targets"));
  const Json* json = OCTAVO_TRY(arguments(keys, "weights"));
  if (json == nullptr) return keys.refuse("weights", "quantised weights");
  const ConfigKeys weights(*json, format("{}: weights", keys.source()));
  if (OCTAVO_TRY(weights.flag_or("dynamic", false))) return weights.refuse("dynamic", "false");
  const std::string own = OCTAVO_TRY(keys.text_or("format", form));
  const std::string type = OCTAVO_TRY(weights.text_or("type", "int"));
  if (type == "float" && (own == "float-quantized" || own == "naive-quantized")) {
    group.format = OCTAVO_TRY(read_fp8_group(keys, weights));
  } else if (type == "int" && own == "pack-quantized") {
    group.format = OCTAVO_TRY(read_int_group(keys, weights));
  } else {
    return unsupported(
        format("{}: weights of 'type' '{}' in 'format' '{}'; octavo computes 'float' in "
               "'float-quantized' and 'int' in 'pack-quantized'",
               keys.source(), type, own));
  }
  return group;
}

Status refuse_sparsity(const ConfigKeys& keys) {
  const Json* sparsity = keys.find("sparsity_config");
  const Json* form = sparsity == nullptr ? nullptr : json_find(*sparsity, "format");
  const bool dense = form != nullptr && form->is_string() && to_view(form->get_string()) == "dense";
  return dense ? Status() : keys.refuse_if_set("sparsity_config");
}

}  // namespace

Result<std::unique_ptr<Scheme>> read_compressed_tensors(const Json& config,
                                                        const std::string& source) {
  const ConfigKeys keys(config, source);
  constexpr std::string_view kKnown[] = {
      "quant_method",     "format",        "quantization_status",      "ignore",
      "kv_cache_scheme",  "config_groups", "global_compression_ratio", "sparsity_config",
      "transform_config", "version"};
  keys.warn_of_others(kKnown);
  OCTAVO_TRY(refuse_sparsity(keys));
  OCTAVO_TRY(keys.refuse_if_set("transform_config"));
  if (OCTAVO_TRY(keys.text_or("quantization_status", "compressed")) != "compressed") {
    return keys.refuse("quantization_status", "'compressed'");
  }
  const std::string form = OCTAVO_TRY(keys.text_or("format", "dense"));
  std::vector<std::string> ignore = OCTAVO_TRY(read_entries(keys, "ignore"));
  const Json* config_groups = keys.find("config_groups");
  if (config_groups == nullptr || !config_groups->is_object() ||
      config_groups->get_object().empty()) {
    return data_loss(format("{}: 'config_groups' must be an object with a group", source));
  }
  std::vector<Group> groups;
  for (const auto& item : config_groups->get_object()) {
    const std::string at = format("{}: config_groups: {}", source,
                                  std::string_view(item.key().data(), item.key().size()));
    if (!item.value().is_object()) return data_loss(format("{}: must be an object", at));
    groups.push_back(OCTAVO_TRY(read_group(ConfigKeys(item.value(), at), form)));
  }
  return std::unique_ptr<Scheme>(
      std::make_unique<CompressedTensors>(std::move(groups), std::move(ignore)));
}

}  // namespace octavo::quant
