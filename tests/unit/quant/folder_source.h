// A checkpoint's tensors for the tests of schemes, as the loader of models hands them out: each
// once, by name and shape.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "formats/safetensors.h"
#include "quant/scheme.h"

namespace octavo::testing {

class FolderSource final : public quant::TensorSource {
 public:
  explicit FolderSource(const std::string& folder)
      : checkpoint_(formats::HfCheckpoint::open(folder).value()) {}

  Result<std::shared_ptr<const quant::Scheme>> scheme() const {
    return quant::read_scheme(
        *quant::find_quantization_config(checkpoint_->metadata().at("config")), "config.json");
  }
  Json json(const std::string& name) const {
    const std::string file = path() + "/" + name;
    return parse_json(formats::read_text_file(file).value(), file).value();
  }

  const std::string& path() const override { return checkpoint_->path(); }
  const formats::TensorInfo* find(std::string_view name) const override {
    return checkpoint_->find(name);
  }
  bool measures() const override { return measures_; }
  Result<Tensor> take(std::string_view name, const Shape& shape) override {
    const formats::TensorInfo* info = find(name);
    if (info == nullptr) return data_loss(format("tensor '{}' is missing", name));
    if (info->shape != shape) return data_loss(format("tensor '{}' has another shape", name));
    EXPECT_TRUE(taken_.emplace(name).second) << name << " is taken twice";
    return checkpoint_->tensor(*info);
  }
  std::vector<std::string> left_over() const {
    std::vector<std::string> names;
    for (const auto& info : checkpoint_->tensors()) {
      if (!taken_.contains(info.name)) names.push_back(info.name);
    }
    return names;
  }
  void set_measures(bool measures) { measures_ = measures; }

  // [rows, cols] of a linear of a Llama, by its config.json.
  std::pair<int64_t, int64_t> extents(std::string_view module) const {
    const Json& config = checkpoint_->metadata().at("config");
    const auto get = [&](const char* key) { return config.at(key).as_int64(); };
    const int64_t hidden = get("hidden_size");
    const int64_t head = config.as_object().contains("head_dim")
                             ? get("head_dim")
                             : hidden / get("num_attention_heads");
    if (module.ends_with("q_proj")) return {get("num_attention_heads") * head, hidden};
    if (module.ends_with("o_proj")) return {hidden, get("num_attention_heads") * head};
    if (module.ends_with("k_proj") || module.ends_with("v_proj")) {
      return {get("num_key_value_heads") * head, hidden};
    }
    if (module.ends_with("down_proj")) return {hidden, get("intermediate_size")};
    return {get("intermediate_size"), hidden};
  }

 private:
  std::shared_ptr<const formats::HfCheckpoint> checkpoint_;
  std::set<std::string, std::less<>> taken_;
  bool measures_ = false;
};

// The tensors of a .safetensors file.
class FloatTensors {
 public:
  explicit FloatTensors(const std::string& path)
      : file_(formats::MmapFile::open(path).value()),
        header_(formats::read_safetensors_header(file_->bytes(), path).value()) {}

  std::vector<std::byte> bytes(std::string_view name) const {
    for (const auto& info : header_.tensors) {
      if (info.name != name) continue;
      const std::byte* begin = file_->bytes().data() + info.offset_bytes;
      return {begin, begin + info.size_bytes};
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  std::vector<float> at(std::string_view name) const {
    const auto raw = bytes(name);
    std::vector<float> values(raw.size() / sizeof(float));
    std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }

 private:
  std::shared_ptr<const formats::MmapFile> file_;
  formats::SafetensorsHeader header_;
};

}  // namespace octavo::testing
