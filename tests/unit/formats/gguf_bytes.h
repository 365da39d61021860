// GGUF files built byte by byte, so that tests can break any rule, and ways to read them.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace octavo::formats {

// What refused files are refused as.
inline constexpr StatusCode kData = StatusCode::kDataLoss;
inline constexpr StatusCode kUnsup = StatusCode::kUnsupported;

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

inline std::string raw_string(std::string_view text) {
  return raw(uint64_t{text.size()}) + std::string(text);
}

inline std::string raw_kind(GgufKind kind) {
  return raw(static_cast<uint32_t>(kind));
}

// A metadata record; `value` is the encoded value.
inline std::string raw_key(std::string_view key, GgufKind kind, std::string_view value) {
  return raw_string(key) + raw_kind(kind) + std::string(value);
}

inline std::string raw_array(GgufKind element, uint64_t count, std::string_view elements) {
  return raw_kind(element) + raw(count) + std::string(elements);
}

// A tensor record; `dims` innermost first, as in the file.
inline std::string raw_tensor(std::string_view name, const std::vector<uint64_t>& dims,
                              uint32_t type, uint64_t offset) {
  std::string out = raw_string(name) + raw(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) out += raw(dim);
  return out + raw(type) + raw(offset);
}

struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> keys;
  std::vector<std::string> tensors;
  size_t alignment = 32;
  std::string data;
  std::optional<uint64_t> num_keys;  // where the header shall lie
  std::optional<uint64_t> num_tensors;

  std::string bytes() const {
    std::string out = magic + raw(version) + raw(num_tensors.value_or(tensors.size())) +
                      raw(num_keys.value_or(keys.size()));
    for (const std::string& key : keys) out += key;
    for (const std::string& tensor : tensors) out += tensor;
    if (!data.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }
};

// A small valid file: three keys, two tensors, no byte to spare at the end.
inline RawGguf small_gguf() {
  RawGguf file;
  file.keys = {raw_key("general.architecture", GgufKind::kString, raw_string("llama")),
               raw_key("llama.block_count", GgufKind::kU32, raw(uint32_t{2})),
               raw_key("tokens", GgufKind::kArray,
                       raw_array(GgufKind::kString, 2, raw_string("a") + raw_string("bc")))};
  file.tensors = {raw_tensor("first", {4, 2}, 0, 0), raw_tensor("second", {32, 3}, 8, 32)};
  file.data = std::string(32 + 3 * 34, 'x');
  return file;
}

// Parses a copy of exactly these bytes, so that AddressSanitizer sees every read beyond them.
inline Result<std::shared_ptr<const GgufCheckpoint>> parse_bytes(std::string_view bytes,
                                                                 std::string path = "test.gguf") {
  const auto image = std::make_shared<std::vector<char>>(bytes.begin(), bytes.end());
  return GgufCheckpoint::parse(std::as_bytes(std::span(*image)), std::move(path), image);
}

// Reads every byte of every tensor.
inline uint64_t sum_tensor_bytes(const Checkpoint& checkpoint) {
  uint64_t sum = 0;
  for (const TensorInfo& info : checkpoint.tensors()) {
    const Tensor tensor = checkpoint.tensor(info);
    for (int64_t i = 0; i < tensor.size_bytes(); ++i) {
      sum += std::to_integer<uint64_t>(tensor.data[i]);
    }
  }
  return sum;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace octavo::formats
