// Tensors made by a test, as the loader of models hands them out.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "quant/scheme.h"
#include "tensor/float16.h"

namespace octavo::testing {

class MemorySource final : public quant::TensorSource {
 public:
  struct Entry {
    formats::TensorInfo info;
    std::vector<std::byte> bytes;
  };

  template <typename T>
  void add(const std::string& name, DType dtype, const Shape& shape, const std::vector<T>& values) {
    Entry entry{{name, dtype, shape, 0, 0}, std::vector<std::byte>(values.size() * sizeof(T))};
    std::memcpy(entry.bytes.data(), values.data(), entry.bytes.size());
    entry.info.size_bytes = static_cast<int64_t>(entry.bytes.size());
    EXPECT_EQ(entry.info.size_bytes, dtype_bytes(dtype, shape_count(shape))) << name;
    entries_[name] = std::move(entry);
  }
  void add_halves(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    std::vector<uint16_t> halves;
    for (const float value : values) halves.push_back(float_to_fp16(value));
    add(name, DType::kF16, shape, halves);
  }

  // For tests that spoil something.
  std::map<std::string, Entry, std::less<>>& entries() { return entries_; }
  void set_measures(bool measures) { measures_ = measures; }

  const std::string& path() const override { return path_; }
  const formats::TensorInfo* find(std::string_view name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second.info;
  }
  bool measures() const override { return measures_; }
  Result<Tensor> take(std::string_view name, const Shape& shape) override {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return data_loss(format("tensor '{}' is missing", name));
    const formats::TensorInfo& info = found->second.info;
    if (info.shape != shape) {
      return data_loss(format("tensor '{}' has shape {}, which must be {}", name,
                              shape_string(info.shape), shape_string(shape)));
    }
    return Tensor{info.name, info.dtype, shape, measures_ ? nullptr : found->second.bytes.data(),
                  nullptr};
  }

 private:
  std::string path_ = "folder";
  std::map<std::string, Entry, std::less<>> entries_;
  bool measures_ = false;
};

}  // namespace octavo::testing
