// THE table of quantisation schemes, and how a config.json is matched with it.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "quant/awq.h"
#include "quant/compressed_tensors.h"
#include "quant/config_keys.h"
#include "quant/fp8.h"
#include "quant/gptq.h"
#include "quant/scheme.h"

namespace octavo::quant {
namespace {

constexpr SchemeRow kSchemes[] = {
    {"fp8", "E4M3; `weight_scale` of a matrix, or `weight_scale_inv` of blocks",
     "E4M3: dynamic by token (and block), or static", "as stored, 8 bits", read_fp8},
    {"fbgemm_fp8", "E4M3 by channel", "E4M3: dynamic by token, within `activation_scale_ub`",
     "as stored, 8 bits", read_fbgemm_fp8},
    {"compressed-tensors",
     "`float-quantized` E4M3 by tensor, channel, group or block; `pack-quantized` int4, int8 by "
     "group or channel",
     "of E4M3: dynamic by token or group, static by tensor; of integers: as they are",
     "E4M3 as stored, 8 bits; integers as with gptq", read_compressed_tensors},
    {"awq", "int4 by group, `gemm`", "as they are", "Q5_0, 5.5 bits", read_awq},
    {"gptq", "int4, int8 by group or channel, v1 and v2, act order", "as they are",
     "int4: symmetric Q4_0, 4.5 bits, else Q5_0, 5.5 bits; int8: symmetric Q8_0, 8.5 bits, else "
     "F32, 32 bits",
     read_gptq},
};

}  // namespace

std::span<const SchemeRow> schemes() {
  return kSchemes;
}

Result<std::shared_ptr<const Scheme>> read_scheme(const Json& config, const std::string& source) {
  if (!config.is_object()) return data_loss(format("{}: must be an object", source));
  const ConfigKeys keys(config, source);
  const std::string method = OCTAVO_TRY(keys.text_or("quant_method", ""));
  std::string known;
  for (const SchemeRow& row : kSchemes) {
    if (row.quant_method != method) {
      known += format("{}'{}'", known.empty() ? "" : ", ", row.quant_method);
      continue;
    }
    std::unique_ptr<Scheme> scheme = OCTAVO_TRY(row.read(config, source));
    if (keys.find("kv_cache_scheme") != nullptr) {
      log_info("{}: 'kv_cache_scheme' has no effect: the type of the KV cache is chosen at start",
               source);
    }
    return std::shared_ptr<const Scheme>(std::move(scheme));
  }
  return keys.refuse("quant_method", known);
}

const Json* find_quantization_config(const Json& config) {
  const Json* text = json_find(config, "text_config");
  for (const Json* object : {&config, text}) {
    for (const std::string_view key : kConfigKeys) {
      if (object == nullptr) break;
      if (const Json* found = json_find(*object, key)) return found;
    }
  }
  return nullptr;
}

Result<std::optional<QuantizedStack>> Scheme::load_stack(TensorSource& /*source*/,
                                                         std::string_view /*name*/,
                                                         int64_t /*count*/, int64_t /*rows*/,
                                                         int64_t /*cols*/) const {
  return std::optional<QuantizedStack>();
}

bool is_kv_cache_scale(std::string_view name) {
  constexpr std::string_view kSuffixes[] = {".k_scale", ".v_scale", ".kv_scale",
                                            ".k_proj.output_scale", ".v_proj.output_scale"};
  return std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace octavo::quant
