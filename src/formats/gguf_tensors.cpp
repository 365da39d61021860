#include "formats/gguf_tensors.h"

#include <algorithm>
#include <unordered_set>

#include "base/format.h"
#include "formats/ggml_types.h"
#include "formats/gguf_types.h"

namespace octavo::formats {
namespace {

constexpr uint64_t kMaxNameBytes = 65535;

constexpr uint64_t kMaxExtent = INT64_MAX;

// A record takes six times its bytes in memory; the largest models in use have some thousands.
constexpr uint64_t kMaxTensors = uint64_t{1} << 20;

// A record as it stands in the file.
struct TensorRecord {
  std::string_view name;
  const GgmlType* type = nullptr;
  Shape shape;                 // outermost first
  uint64_t size_bytes = 0;     // of the data
  uint64_t data_offset = 0;    // from the start of the data section
  uint64_t record_offset = 0;  // of the data_offset field, for errors
};

// The shape; the file stores the innermost dimension first.
Result<Shape> read_shape(GgufReader& in) {
  const auto num_dims = OCTAVO_TRY(in.number<uint32_t>("the number of dimensions"));
  if (num_dims < 1 || num_dims > kGgufMaxDims) {
    return in.error(StatusCode::kDataLoss, format("{} dimensions instead of 1 to 4", num_dims));
  }
  Shape shape(num_dims);
  uint64_t count = 1;
  for (uint32_t i = 0; i < num_dims; ++i) {
    const auto extent = OCTAVO_TRY(in.number<uint64_t>("a dimension"));
    // Zero is refused by itself: a product that wraps around to 0 must not pass for an empty
    // tensor, nor a 0 hide that the other dimensions overflow.
    if (extent == 0) return in.error(StatusCode::kDataLoss, format("dimension {} is 0", i));
    if (extent > kMaxExtent || __builtin_mul_overflow(count, extent, &count) ||
        count > kMaxExtent) {
      return in.error(StatusCode::kDataLoss,
                      format("dimension {} is {}: the number of values overflows", i, extent));
    }
    shape[num_dims - 1 - i] = static_cast<int64_t>(extent);
  }
  return shape;
}

// The type, if octavo can use it.
Result<const GgmlType*> read_type(GgufReader& in) {
  const auto id = OCTAVO_TRY(in.number<uint32_t>("the tensor type"));
  const GgmlType* type = find_ggml_type(id);
  if (type == nullptr) {
    return in.error(StatusCode::kUnsupported, format("tensor type {} is not known", id));
  }
  switch (type->support) {
    case GgmlSupport::kSupported:
      return type;
    case GgmlSupport::kActivationOnly:
      return in.error(StatusCode::kUnsupported,
                      format("tensor type {} is for activations, not for files", type->name));
    case GgmlSupport::kRemoved:
      break;
  }
  return in.error(
      StatusCode::kUnsupported,
      format("tensor type {} was removed from the format; convert the model again", type->name));
}

Result<uint64_t> data_bytes(const GgufReader& in, const GgmlType& type, const Shape& shape) {
  const auto row_length = static_cast<uint64_t>(shape.back());
  const auto block_size = static_cast<uint64_t>(type.block_size);
  if (row_length % block_size != 0) {
    return in.error(StatusCode::kDataLoss,
                    format("rows of {} values are no whole number of {} blocks of {}", row_length,
                           type.name, block_size));
  }
  uint64_t size = 0;
  const uint64_t num_blocks = static_cast<uint64_t>(shape_count(shape)) / block_size;
  if (__builtin_mul_overflow(num_blocks, static_cast<uint64_t>(type.block_bytes), &size)) {
    return in.error(StatusCode::kDataLoss, format("the bytes of {} values of {} overflow",
                                                  shape_string(shape), type.name));
  }
  return size;
}

Status read_record(GgufReader& in, TensorRecord& record) {
  record.name = OCTAVO_TRY(in.string("the name", kMaxNameBytes));
  if (record.name.empty()) return in.error(StatusCode::kDataLoss, "the name is empty");
  in.set_subject_name(record.name);
  record.shape = OCTAVO_TRY(read_shape(in));
  record.type = OCTAVO_TRY(read_type(in));
  record.size_bytes = OCTAVO_TRY(data_bytes(in, *record.type, record.shape));
  record.record_offset = in.offset();
  record.data_offset = OCTAVO_TRY(in.number<uint64_t>("the data offset"));
  return {};
}

// Checks one tensor's place in the data section.
Status check_place(GgufReader& in, const TensorRecord& record, uint64_t data_size,
                   uint64_t alignment) {
  std::string problem;
  if (record.data_offset % alignment != 0) {
    problem = format("the data offset {} is no multiple of the alignment {}", record.data_offset,
                     alignment);
  } else if (record.data_offset > data_size || record.size_bytes > data_size - record.data_offset) {
    problem = format("{} bytes of data at offset {} run past the {} bytes of the data section",
                     record.size_bytes, record.data_offset, data_size);
  } else {
    return {};
  }
  return in.error_at(record.record_offset, StatusCode::kDataLoss, problem);
}

// Errors unless the tensors are disjoint; all have been placed inside the file.
Status check_disjoint(GgufReader& in, const std::vector<TensorRecord>& records) {
  std::vector<size_t> order(records.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&records](size_t a, size_t b) {
    return records[a].data_offset < records[b].data_offset;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorRecord& before = records[order[i - 1]];
    const TensorRecord& record = records[order[i]];
    if (before.data_offset + before.size_bytes <= record.data_offset) continue;
    in.set_subject("tensor", order[i]);
    in.set_subject_name(record.name);
    return in.error_at(record.record_offset, StatusCode::kDataLoss,
                       "its data overlaps that of tensor " + quoted_name(before.name));
  }
  return {};
}

}  // namespace

Result<std::vector<TensorInfo>> read_gguf_tensors(GgufReader& in, uint64_t num_tensors,
                                                  uint64_t alignment) {
  if (num_tensors > kMaxTensors) {
    in.set_subject("", 0);
    return in.error_at(in.offset(), StatusCode::kUnsupported,
                       format("{} tensors are more than the {} allowed", num_tensors, kMaxTensors));
  }
  std::vector<TensorRecord> records;
  std::unordered_set<std::string_view> names;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    in.set_subject("tensor", i);
    const uint64_t start = in.offset();
    OCTAVO_TRY(read_record(in, records.emplace_back()));
    if (!names.insert(records.back().name).second) {
      return in.error_at(start, StatusCode::kDataLoss, "the name occurs twice");
    }
  }

  const uint64_t file_bytes = in.offset() + in.remaining();
  const uint64_t data_start = gguf_align(in.offset(), alignment);
  const uint64_t data_size = file_bytes - std::min(data_start, file_bytes);
  std::vector<TensorInfo> tensors;
  tensors.reserve(records.size());
  for (const TensorRecord& record : records) {
    in.set_subject("tensor", tensors.size());
    in.set_subject_name(record.name);
    OCTAVO_TRY(check_place(in, record, data_size, alignment));
    tensors.push_back({std::string(record.name), *record.type->dtype, record.shape,
                       static_cast<int64_t>(data_start + record.data_offset),
                       static_cast<int64_t>(record.size_bytes)});
  }
  OCTAVO_TRY(check_disjoint(in, records));
  return tensors;
}

}  // namespace octavo::formats
