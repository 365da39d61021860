#include "formats/gguf_metadata.h"

#include <type_traits>
#include <utility>

#include "base/format.h"

namespace octavo::formats {
namespace {

constexpr uint64_t kMaxStringBytes = uint64_t{64} << 20;

// A one-byte element becomes a 24-byte Json, so lengths checked against the file's size alone would
// let a large file ask for many times its size. The largest vocabularies in use have under a
// million tokens, scores, types and merges each.
constexpr uint64_t kMaxValues = uint64_t{8} << 20;

// Integers become int64 where they fit, whatever their width in the file: one kind to look for.
template <typename T>
Json number_to_json(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else {
    return std::in_range<int64_t>(value) ? Json(static_cast<int64_t>(value)) : Json(value);
  }
}

boost::json::string_view to_json_view(std::string_view text) {
  return {text.data(), text.size()};
}

class MetadataReader {
 public:
  explicit MetadataReader(GgufReader& in) : in_(in) {}

  Result<GgufMetadata> read(uint64_t num_keys);

 private:
  Result<GgufKind> read_kind(std::string_view what);
  Result<Json> read_value(GgufType* type);
  Result<Json> read_array(GgufKind element);
  Status read_strings(uint64_t count, JsonArray& array);
  Status read_numbers(GgufKind element, uint64_t count, JsonArray& array);
  Status spend_values(uint64_t count);
  Result<uint32_t> check_alignment(GgufType type, const Json& value) const;

  Status bad(std::string_view problem) const { return in_.error(StatusCode::kDataLoss, problem); }

  GgufReader& in_;
  uint64_t values_left_ = kMaxValues;
};

Result<GgufMetadata> MetadataReader::read(uint64_t num_keys) {
  GgufMetadata metadata;
  JsonObject& object = metadata.values.emplace_object();
  for (uint64_t i = 0; i < num_keys; ++i) {
    in_.set_subject("key", i);
    const std::string_view key = OCTAVO_TRY(in_.string("the key", kGgufMaxKeyBytes));
    if (key.empty()) return bad("the key is empty");
    in_.set_subject_name(key);
    if (object.contains(to_json_view(key))) return bad("the key occurs twice");
    GgufType type;
    Json value = OCTAVO_TRY(read_value(&type));
    if (key == kGgufAlignmentKey) {
      metadata.alignment = OCTAVO_TRY(check_alignment(type, value));
    }
    object.emplace(to_json_view(key), std::move(value));
    metadata.types.push_back(type);
  }
  return metadata;
}

Result<uint32_t> MetadataReader::check_alignment(GgufType type, const Json& value) const {
  if (type.kind != GgufKind::kU32) {
    return bad("the alignment must be a u32, not " + gguf_type_name(type));
  }
  const auto alignment = static_cast<uint64_t>(value.get_int64());
  if (!gguf_alignment_is_valid(alignment)) {
    return bad(format("the alignment must be a power of two from 8 to {}, not {}",
                      kGgufMaxAlignment, alignment));
  }
  return static_cast<uint32_t>(alignment);
}

Result<GgufKind> MetadataReader::read_kind(std::string_view what) {
  const uint32_t kind = OCTAVO_TRY(in_.number<uint32_t>(what));
  if (kind >= kNumGgufKinds) return bad(format("{} {} is not known", what, kind));
  return static_cast<GgufKind>(kind);
}

Result<Json> MetadataReader::read_value(GgufType* type) {
  OCTAVO_TRY(spend_values(1));
  type->kind = OCTAVO_TRY(read_kind("value type"));
  switch (type->kind) {
    case GgufKind::kString:
      return Json(to_json_view(OCTAVO_TRY(in_.string("the string", kMaxStringBytes))));
    case GgufKind::kArray:
      type->element = OCTAVO_TRY(read_kind("element type"));
      return read_array(type->element);
    case GgufKind::kBool: {
      const auto value = OCTAVO_TRY(in_.number<uint8_t>("the value"));
      if (value > 1) return bad(format("a bool is 0 or 1, not {}", value));
      return Json(value == 1);
    }
    default:
      return gguf_visit_number(type->kind, [this](auto zero) -> Result<Json> {
        return number_to_json(OCTAVO_TRY(in_.number<decltype(zero)>("the value")));
      });
  }
}

Result<Json> MetadataReader::read_array(GgufKind element) {
  if (element == GgufKind::kArray) {
    return in_.error(StatusCode::kUnsupported, "arrays of arrays are not supported");
  }
  const auto count = OCTAVO_TRY(in_.number<uint64_t>("the array length"));
  const uint64_t min_element_bytes =
      element == GgufKind::kString ? sizeof(uint64_t) : gguf_kind_bytes(element);
  if (count > in_.remaining() / min_element_bytes) {
    return bad(format("an array of {} elements does not fit into the {} bytes left in the file",
                      count, in_.remaining()));
  }
  OCTAVO_TRY(spend_values(count));
  Json value;
  JsonArray& array = value.emplace_array();
  array.reserve(count);
  if (element == GgufKind::kString) {
    OCTAVO_TRY(read_strings(count, array));
  } else {
    OCTAVO_TRY(read_numbers(element, count, array));
  }
  return value;
}

Status MetadataReader::read_strings(uint64_t count, JsonArray& array) {
  for (uint64_t i = 0; i < count; ++i) {
    array.emplace_back(to_json_view(OCTAVO_TRY(in_.string("a string", kMaxStringBytes))));
  }
  return {};
}

Status MetadataReader::read_numbers(GgufKind element, uint64_t count, JsonArray& array) {
  const uint64_t first = in_.offset();
  // The caller has checked that the product fits into the file.
  const auto bytes = OCTAVO_TRY(in_.take("the array", count * gguf_kind_bytes(element)));
  if (element == GgufKind::kBool) {
    for (uint64_t i = 0; i < count; ++i) {
      const auto value = std::to_integer<uint8_t>(bytes[i]);
      if (value > 1) {
        return in_.error_at(first + i, StatusCode::kDataLoss,
                            format("a bool is 0 or 1, not {}", value));
      }
      array.emplace_back(value == 1);
    }
    return {};
  }
  gguf_visit_number(element, [&](auto value) {
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
      array.emplace_back(number_to_json(value));
    }
  });
  return {};
}

Status MetadataReader::spend_values(uint64_t count) {
  if (count > values_left_) {
    return in_.error(StatusCode::kUnsupported,
                     format("more than {} metadata values in one file", kMaxValues));
  }
  values_left_ -= count;
  return {};
}

}  // namespace

Result<GgufMetadata> read_gguf_metadata(GgufReader& in, uint64_t num_keys) {
  return MetadataReader(in).read(num_keys);
}

}  // namespace octavo::formats
