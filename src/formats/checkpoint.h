// Checkpoint: a model file as named tensors and metadata. Everything that can be wrong with the
// container (lengths, offsets, overlaps, types) has been checked when open_checkpoint returns; what
// the metadata means is the model's and the tokenizer's business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "octavo/status.h"
#include "tensor/tensor.h"

namespace octavo::formats {

struct TensorInfo {
  std::string name;
  DType dtype;
  Shape shape;           // outermost first
  int64_t offset_bytes;  // from the start of the file that holds it
  int64_t size_bytes;
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  virtual std::string_view format_name() const = 0;  // "gguf"
  virtual const std::string& path() const = 0;
  virtual int64_t file_bytes() const = 0;

  // An object. GGUF: the file's keys and values; integers, floats, booleans, strings and arrays map
  // to their JSON kinds (strings may hold bytes that are not UTF-8).
  virtual const Json& metadata() const = 0;

  // In file order.
  virtual std::span<const TensorInfo> tensors() const = 0;

  // nullptr where there is none of that name.
  virtual const TensorInfo* find(std::string_view name) const = 0;

  // A view of the mapped file that keeps the mapping alive; `info` is one of tensors().
  virtual Tensor tensor(const TensorInfo& info) const = 0;

  // A part of a tensor() is not needed any more: lets go of its memory where that can be had back.
  virtual void give_back(std::span<const std::byte> part) const = 0;
};

// Opens `path` by its content, not its name.
Result<std::shared_ptr<const Checkpoint>> open_checkpoint(const std::string& path);

}  // namespace octavo::formats
