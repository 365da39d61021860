#include "support/gguf_from_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numbers>
#include <vector>

#include "base/format.h"
#include "formats/checkpoint.h"
#include "formats/gguf_writer.h"
#include "ops/decode_row.h"

namespace octavo::testing {
namespace {

// What llama.cpp calls the parts of a layer. Where norms stand decides about one of them.
const std::map<std::string, std::string> kLayerNames = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"feed_forward.router", "ffn_gate_inp"},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
};

struct Floats {
  Shape shape;
  std::vector<float> values;
};

class Converter {
 public:
  Converter(const std::string& folder, const std::string& path)
      : checkpoint_(formats::open_checkpoint(folder).value()), path_(path) {
    const Json& top = checkpoint_->metadata().at("config");
    config_ = top.as_object().contains("text_config") ? top.at("text_config") : top;
    type_ = to_view(config_.at("model_type").as_string());
  }

  void run() {
    write_metadata();
    for (const formats::TensorInfo& info : checkpoint_->tensors()) add(info);
    for (auto& [name, matrices] : experts_) {
      Floats stack{{static_cast<int64_t>(matrices.size()), 0, 0}, {}};
      for (auto& [index, matrix] : matrices) {
        stack.shape[1] = matrix.shape[0];
        stack.shape[2] = matrix.shape[1];
        stack.values.insert(stack.values.end(), matrix.values.begin(), matrix.values.end());
      }
      tensors_[name] = std::move(stack);
    }
    add_rope_factors();
    for (const auto& [name, tensor] : tensors_) {
      expect_ok(writer_.add_tensor(name, DType::kF32, tensor.shape));
    }
    expect_ok(writer_.open(path_));
    for (const auto& [name, tensor] : tensors_) {
      expect_ok(writer_.write(std::as_bytes(std::span(tensor.values))));
    }
    expect_ok(writer_.close());
  }

 private:
  static void expect_ok(const Status& status) {
    if (status.ok()) return;
    ADD_FAILURE() << status.message();
    std::abort();
  }

  bool is(const char* type) const { return type_ == type; }
  bool norms_around_or_after() const { return is("gemma2") || is("gemma3_text") || is("olmo2"); }
  bool has(const char* key) const { return json_find(config_, key) != nullptr; }
  double number(const char* key) const { return config_.at(key).to_number<double>(); }
  int64_t integer(const char* key) const { return config_.at(key).to_number<int64_t>(); }
  int64_t head_dim() const {
    return has("head_dim") ? integer("head_dim")
                           : integer("hidden_size") / integer("num_attention_heads");
  }
  double partial() const {
    const Json* rope = rope_scaling();
    if (rope != nullptr && json_find(*rope, "partial_rotary_factor") != nullptr) {
      return rope->at("partial_rotary_factor").to_number<double>();
    }
    return has("partial_rotary_factor") ? number("partial_rotary_factor") : 1;
  }
  const Json* rope_scaling() const {
    const Json* rope = json_find(config_, "rope_parameters");
    return rope != nullptr ? rope : json_find(config_, "rope_scaling");
  }
  std::string rope_type() const {
    const Json* rope = rope_scaling();
    if (rope == nullptr) return "default";
    const Json* name = json_find(*rope, "rope_type");
    return std::string(to_view((name != nullptr ? *name : rope->at("type")).as_string()));
  }
  double rope_number(const char* key) const { return rope_scaling()->at(key).to_number<double>(); }
  double theta() const {
    return has("rope_theta") ? number("rope_theta") : rope_number("rope_theta");
  }

  std::string architecture() const {
    if (is("mixtral") || is("mistral")) return "llama";
    if (is("qwen3_moe")) return "qwen3moe";
    if (is("gemma3_text")) return "gemma3";
    if (is("llama4_text")) return "llama4";
    return type_;
  }

  void put(const std::string& key, const Json& value) {
    formats::GgufType type{formats::GgufKind::kU32};
    if (value.is_string()) type = {formats::GgufKind::kString};
    if (value.is_double()) type = {formats::GgufKind::kF32};
    const std::string name =
        key == "general.architecture" ? key : format("{}.{}", architecture(), key);
    expect_ok(writer_.add_metadata(name, type, value));
  }

  void write_metadata() {
    put("general.architecture", Json(architecture()));
    put("block_count", integer("num_hidden_layers"));
    put("embedding_length", integer("hidden_size"));
    put("feed_forward_length",
        integer(is("llama4_text") ? "intermediate_size_mlp" : "intermediate_size"));
    put("context_length", integer("max_position_embeddings"));
    put("attention.head_count", integer("num_attention_heads"));
    put("attention.head_count_kv", integer("num_key_value_heads"));
    put("attention.key_length", head_dim());
    put("attention.value_length", head_dim());
    put("attention.layer_norm_rms_epsilon", number("rms_norm_eps"));
    put("rope.freq_base", theta());
    put("rope.dimension_count", static_cast<int64_t>(static_cast<double>(head_dim()) * partial()));
    if (has("sliding_window") && !has("use_sliding_window")) {
      put("attention.sliding_window", integer("sliding_window"));
    }
    if (has("attn_logit_softcapping")) {
      put("attn_logit_softcapping", number("attn_logit_softcapping"));
    }
    if (has("final_logit_softcapping")) {
      put("final_logit_softcapping", number("final_logit_softcapping"));
    }
    write_moe();
    const std::string rope = rope_type();
    if (rope == "linear" || rope == "yarn") {
      put("rope.scaling.type", Json(rope));
      put("rope.scaling.factor", rope_number("factor"));
    }
    if (rope == "yarn") {
      put("rope.scaling.original_context_length",
          static_cast<int64_t>(rope_number("original_max_position_embeddings")));
    }
    if (rope == "longrope") {
      const double original = number("original_max_position_embeddings");
      const double stretched = number("max_position_embeddings") / original;
      put("rope.scaling.original_context_length", static_cast<int64_t>(original));
      put("rope.scaling.attn_factor", std::sqrt(1 + std::log(stretched) / std::log(original)));
    }
  }

  void write_moe() {
    const char* experts = has("num_local_experts") ? "num_local_experts" : "num_experts";
    if (!has(experts)) return;
    put("expert_count", integer(experts));
    put("expert_used_count", integer("num_experts_per_tok"));
    if (is("qwen3_moe")) put("expert_feed_forward_length", integer("moe_intermediate_size"));
    if (!is("llama4_text")) return;
    put("expert_feed_forward_length", integer("intermediate_size"));
    put("interleave_moe_layer_step", integer("interleave_moe_layer_step"));
    put("attention.sliding_window", integer("attention_chunk_size"));
    put("attention.temperature_length", integer("floor_scale"));
    put("attention.temperature_scale", number("attn_scale"));
  }

  // Llama 3's scaling is a tensor of divisors, longrope's lists are tensors.
  void add_rope_factors() {
    if (rope_type() == "longrope") {
      for (const char* kind : {"long", "short"}) {
        const JsonArray& list = rope_scaling()->at(format("{}_factor", kind)).as_array();
        Floats factors{{static_cast<int64_t>(list.size())}, {}};
        for (const Json& value : list) factors.values.push_back(value.to_number<float>());
        tensors_[format("rope_factors_{}.weight", kind)] = std::move(factors);
      }
    }
    if (rope_type() != "llama3") return;
    const double factor = rope_number("factor");
    const double low = rope_number("low_freq_factor");
    const double high = rope_number("high_freq_factor");
    const double original = rope_number("original_max_position_embeddings");
    Floats divisors{{head_dim() / 2}, {}};
    for (int64_t i = 0; i < head_dim() / 2; ++i) {
      const double exponent = static_cast<double>(2 * i) / static_cast<double>(head_dim());
      const double wavelength = 2 * std::numbers::pi * std::pow(theta(), exponent);
      double divisor = 1;
      if (wavelength > original / low) {
        divisor = factor;
      } else if (wavelength >= original / high) {
        const double smooth = (original / wavelength - low) / (high - low);
        divisor = 1 / ((1 - smooth) / factor + smooth);
      }
      divisors.values.push_back(static_cast<float>(divisor));
    }
    tensors_["rope_freqs.weight"] = std::move(divisors);
  }

  Floats read(const formats::TensorInfo& info) const {
    Floats result{info.shape, std::vector<float>(shape_count(info.shape))};
    const Tensor tensor = checkpoint_->tensor(info);
    ops::decode_row_fn(tensor.dtype)(tensor.data, result.values.data(), tensor.count());
    return result;
  }

  // Row p * d/2 + i of a head goes to 2i + p.
  void permute(Floats& tensor) const {
    const int64_t width = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    const int64_t half = head_dim() / 2;
    const std::vector<float> old = tensor.values;
    for (int64_t row = 0; row < tensor.shape[0]; ++row) {
      const int64_t in_head = row % head_dim();
      const int64_t to = row - in_head + 2 * (in_head % half) + in_head / half;
      std::copy_n(&old[row * width], width, &tensor.values[to * width]);
    }
  }

  // Scores cannot be scaled by metadata: what is not head_dim^-0.5 goes into the queries.
  void scale_queries(Floats& tensor) const {
    if (!has("query_pre_attn_scalar")) return;
    const double scale =
        std::sqrt(static_cast<double>(head_dim()) / number("query_pre_attn_scalar"));
    for (float& value : tensor.values) value = static_cast<float>(value * scale);
  }

  void add(const formats::TensorInfo& info) {
    std::string name = info.name;
    constexpr std::string_view kText = "language_model.";
    if (name.starts_with("vision_model.") || name.starts_with("multi_modal_")) return;
    if (name.starts_with(kText)) name = name.substr(kText.size());
    Floats tensor = read(info);
    if (name == "model.embed_tokens.weight") {
      tensors_["token_embd.weight"] = std::move(tensor);
    } else if (name == "lm_head.weight") {
      tensors_["output.weight"] = std::move(tensor);
    } else if (name == "model.norm.weight") {
      if (architecture().starts_with("gemma")) plus_one(tensor);
      tensors_["output_norm.weight"] = std::move(tensor);
    } else {
      add_of_layer(name, std::move(tensor));
    }
  }

  static void plus_one(Floats& tensor) {
    for (float& value : tensor.values) value += 1;
  }

  void add_of_layer(const std::string& name, Floats tensor) {
    constexpr size_t kLayers = sizeof("model.layers.") - 1;
    const size_t dot = name.find('.', kLayers);
    const std::string at = format("blk.{}.", name.substr(kLayers, dot - kLayers));
    std::string rest = name.substr(dot + 1);
    if (rest.find(".experts.") != std::string::npos) return add_expert(at, rest, tensor);
    const std::string tail = rest.substr(rest.rfind('.'));
    rest = rest.substr(0, rest.rfind('.'));
    const bool norm = rest.find("norm") != std::string::npos;
    if (norm && architecture().starts_with("gemma")) plus_one(tensor);
    const bool q = rest == "self_attn.q_proj";
    if (architecture() == "llama" && (q || rest == "self_attn.k_proj")) permute(tensor);
    if (rest == (is("gemma3_text") ? "self_attn.q_norm" : "self_attn.q_proj")) {
      scale_queries(tensor);
    }
    if (rest == "post_attention_layernorm") {
      tensors_[at + (norms_around_or_after() ? "post_attention_norm" : "ffn_norm") + tail] =
          std::move(tensor);
    } else {
      tensors_[at + kLayerNames.at(rest) + tail] = std::move(tensor);
    }
  }

  void add_expert(const std::string& at, const std::string& rest, const Floats& tensor) {
    if (tensor.shape.size() == 3) return add_transposed_experts(at, rest, tensor);
    const size_t begin = rest.find(".experts.") + sizeof(".experts.") - 1;
    const int64_t index = std::stoll(rest.substr(begin));
    static const std::map<std::string, std::string> kNames = {
        {"gate_proj", "gate"}, {"up_proj", "up"}, {"down_proj", "down"},
        {"w1", "gate"},        {"w3", "up"},      {"w2", "down"}};
    const size_t name = rest.find('.', begin) + 1;
    const std::string part = kNames.at(rest.substr(name, rest.rfind('.') - name));
    experts_[format("{}ffn_{}_exps.weight", at, part)][index] = tensor;
  }

  // [experts, in, out] -> [experts, out, in], with gate and up apart.
  void add_transposed_experts(const std::string& at, const std::string& rest,
                              const Floats& tensor) {
    const bool down = rest.ends_with("down_proj");
    const int64_t rows = tensor.shape[1];
    const int64_t cols = tensor.shape[2];
    const int64_t part = down ? cols : cols / 2;
    for (int64_t begin = 0; begin < cols; begin += part) {
      Floats out{{tensor.shape[0], part, rows}, {}};
      for (int64_t e = 0; e < tensor.shape[0]; ++e) {
        for (int64_t c = begin; c < begin + part; ++c) {
          for (int64_t r = 0; r < rows; ++r) {
            out.values.push_back(tensor.values[(e * rows + r) * cols + c]);
          }
        }
      }
      const char* name = down ? "down" : begin == 0 ? "gate" : "up";
      tensors_[format("{}ffn_{}_exps.weight", at, name)] = std::move(out);
    }
  }

  std::shared_ptr<const formats::Checkpoint> checkpoint_;
  std::string path_;
  Json config_;
  std::string type_;
  formats::GgufWriter writer_;
  std::map<std::string, Floats> tensors_;
  std::map<std::string, std::map<int64_t, Floats>> experts_;
};

}  // namespace

void write_gguf_from_folder(const std::string& folder, const std::string& path) {
  Converter(folder, path).run();
}

}  // namespace octavo::testing
