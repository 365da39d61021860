// The rotation of a config.json: rope_theta beside rope_scaling, or all of it in rope_parameters,
// there perhaps by kind of layer.
#include <set>

#include "base/check.h"
#include "base/format.h"
#include "model/hf_reader.h"

namespace octavo::model {
namespace {

Result<RopeType> parse_rope_type(const std::string& name, const std::string& source) {
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "dynamic") return RopeType::kDynamic;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "yarn") return RopeType::kYarn;
  if (name == "longrope" || name == "su") return RopeType::kLongrope;  // "su": its first name
  return unsupported(format("{}: rope type '{}' is not known", source, name));
}

Status check_rope_keys(const HfReader& rope) {
  static const std::set<std::string_view> known = {"rope_type",
                                                   "type",
                                                   "rope_theta",
                                                   "factor",
                                                   "original_max_position_embeddings",
                                                   "low_freq_factor",
                                                   "high_freq_factor",
                                                   "beta_fast",
                                                   "beta_slow",
                                                   "truncate",
                                                   "attention_factor",
                                                   "mscale",
                                                   "mscale_all_dim",
                                                   "partial_rotary_factor",
                                                   "short_factor",
                                                   "long_factor"};
  for (const auto& item : rope.config().get_object()) {
    const std::string_view key(item.key().data(), item.key().size());
    if (!known.contains(key)) {
      return unsupported(
          format("{}: '{}' is not known, and may change the result", rope.source(), key));
    }
  }
  return {};
}

// The part of a head that rotates.
Status read_rotary_dim(const HfReader& reader, ModelConfig& config) {
  const double part = OCTAVO_TRY(reader.positive_or("partial_rotary_factor", 1));
  if (part == 1) return {};
  if (!config.traits.partial_rotary) {
    return unsupported(format("{}: 'partial_rotary_factor' is not supported for this architecture",
                              reader.source()));
  }
  const double values = part * static_cast<double>(config.head_dim);
  config.rotary_dim = part < 1 ? static_cast<int64_t>(values) : 0;
  if (config.rotary_dim < 2 || config.rotary_dim % 2 != 0) {
    return data_loss(
        format("{}: 'partial_rotary_factor' {} makes {} of {} values rotate, which must be an "
               "even part",
               reader.source(), part, values, config.head_dim));
  }
  return {};
}

Status read_llama3(const HfReader& rope, RopeParameters& out) {
  out.low_freq_factor = OCTAVO_TRY(rope.positive("low_freq_factor"));
  out.high_freq_factor = OCTAVO_TRY(rope.positive("high_freq_factor"));
  OCTAVO_TRY(rope.positive("original_max_position_embeddings"));
  return {};
}

Status read_yarn(const HfReader& rope, RopeParameters& out) {
  out.beta_fast = OCTAVO_TRY(rope.positive_or("beta_fast", 32));
  out.beta_slow = OCTAVO_TRY(rope.positive_or("beta_slow", 1));
  out.truncate = OCTAVO_TRY(rope.flag_or("truncate", true));
  const double mscale = OCTAVO_TRY(rope.positive_or("mscale", 0));
  const double mscale_all_dim = OCTAVO_TRY(rope.positive_or("mscale_all_dim", 0));
  out.attention_factor = OCTAVO_TRY(rope.positive_or(
      "attention_factor", yarn_attention_factor(out.factor, mscale, mscale_all_dim)));
  return {};
}

Status read_longrope(const HfReader& rope, const ModelConfig& config, RopeParameters& out) {
  out.short_factor = OCTAVO_TRY(rope.positives("short_factor", config.rotary_dim / 2));
  out.long_factor = OCTAVO_TRY(rope.positives("long_factor", config.rotary_dim / 2));
  const double original = out.original_max_position_embeddings;
  const auto stretched = static_cast<double>(config.max_position_embeddings) / original;
  out.factor = OCTAVO_TRY(rope.positive_or("factor", stretched));
  out.attention_factor = OCTAVO_TRY(
      rope.positive_or("attention_factor", longrope_attention_factor(out.factor, original)));
  return {};
}

// transformers measures a sequence against max_position_embeddings, whatever else is written.
Status check_dynamic(const HfReader& rope, const ModelConfig& config, const RopeParameters& out) {
  const auto trained = static_cast<double>(config.max_position_embeddings);
  if (out.original_max_position_embeddings == trained) return {};
  return unsupported(
      format("{}: 'original_max_position_embeddings' {} beside rope type 'dynamic' and "
             "'max_position_embeddings' {}",
             rope.source(), out.original_max_position_embeddings, trained));
}

// `rope` is the object under rope_scaling or rope_parameters; `reader` the config around it.
Status read_rope_object(const HfReader& reader, const HfReader& rope, ModelConfig& config,
                        RopeParameters& out) {
  OCTAVO_TRY(check_rope_keys(rope));
  OCTAVO_TRY(read_rotary_dim(rope, config));
  const std::string old_name = OCTAVO_TRY(rope.text_or("type", "default"));
  const std::string name = OCTAVO_TRY(rope.text_or("rope_type", old_name));
  out.rope_type = OCTAVO_TRY(parse_rope_type(name, rope.source()));
  out.rope_theta = OCTAVO_TRY(rope.positive_or("rope_theta", out.rope_theta));
  if (out.rope_type == RopeType::kDefault) return {};
  const double around = OCTAVO_TRY(reader.positive_or(
      "original_max_position_embeddings", static_cast<double>(config.max_position_embeddings)));
  out.original_max_position_embeddings =
      OCTAVO_TRY(rope.positive_or("original_max_position_embeddings", around));
  if (out.rope_type == RopeType::kLongrope) return read_longrope(rope, config, out);
  out.factor = OCTAVO_TRY(rope.positive("factor"));
  if (out.rope_type == RopeType::kLlama3) return read_llama3(rope, out);
  if (out.rope_type == RopeType::kYarn) return read_yarn(rope, out);
  if (out.rope_type == RopeType::kDynamic) return check_dynamic(rope, config, out);
  return {};
}

// rope_parameters by kind of layer: {"full_attention": {…}, "sliding_attention": {…}}.
Status read_by_layer_kind(const HfReader& reader, const HfReader& kinds, ModelConfig& config) {
  config.local_rope = RopeParameters{};
  for (const auto& item : kinds.config().get_object()) {
    const std::string_view kind(item.key().data(), item.key().size());
    const bool local = kind == "sliding_attention";
    if (!local && kind != "full_attention") {
      return unsupported(
          format("{}: '{}' is no kind of layer that octavo knows", kinds.source(), kind));
    }
    const std::string source = format("{}: {}", kinds.source(), kind);
    if (!item.value().is_object()) return data_loss(format("{} must be an object", source));
    OCTAVO_TRY(read_rope_object(reader, HfReader(item.value(), source), config,
                                local ? *config.local_rope : config.rope));
  }
  return {};
}

}  // namespace

Status read_hf_rope(const HfReader& reader, ModelConfig& config) {
  config.rope.rope_theta = OCTAVO_TRY(reader.positive_or("rope_theta", config.traits.rope_theta));
  OCTAVO_TRY(read_rotary_dim(reader, config));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* object = reader.find(key);
    if (object == nullptr) continue;
    const std::string source = format("{}: {}", reader.source(), key);
    if (!object->is_object()) return data_loss(format("{} must be an object", source));
    const HfReader rope(*object, source);
    if (rope.has("full_attention")) {
      OCTAVO_TRY(read_by_layer_kind(reader, rope, config));
    } else {
      OCTAVO_TRY(read_rope_object(reader, rope, config, config.rope));
    }
  }
  const bool two_kinds = config.traits.local_rope;
  if (two_kinds && !config.local_rope) {
    config.local_rope = RopeParameters{};
    config.local_rope->rope_theta = OCTAVO_TRY(reader.positive_or("rope_local_base_freq", 10000));
  }
  if (config.local_rope && !two_kinds) {
    return unsupported(format("{}: 'rope_parameters' differs by kind of layer", reader.source()));
  }
  if (config.local_rope &&
      (config.rope.depends_on_length() || config.local_rope->depends_on_length())) {
    return unsupported(format("{}: a rotation that depends on the length, for one kind of layer",
                              reader.source()));
  }
  return {};
}

}  // namespace octavo::model
