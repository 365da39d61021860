#include "tokenizer/protobuf_reader.h"

namespace octavo::tokenizer {

std::optional<ProtobufReader::Field> ProtobufReader::next() {
  if (failed_ || rest_.empty()) return std::nullopt;
  const std::optional<Field> field = read_field();
  failed_ = !field;
  return field;
}

std::optional<ProtobufReader::Field> ProtobufReader::read_field() {
  enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  const auto tag = read_varint();
  if (!tag || *tag >> 3 == 0) return std::nullopt;
  Field field;
  field.number = *tag >> 3;
  std::optional<uint64_t> value;
  switch (*tag & 7) {
    case kVarint:
      value = read_varint();
      break;
    case kFixed64:
      value = read_fixed(8);
      break;
    case kFixed32:
      value = read_fixed(4);
      break;
    case kBytes:
      value = read_varint();
      if (!value || *value > rest_.size()) return std::nullopt;
      field.bytes = rest_.substr(0, *value);
      rest_.remove_prefix(*value);
      return field;
    default:  // groups, long out of use
      return std::nullopt;
  }
  if (!value) return std::nullopt;
  field.value = *value;
  return field;
}

std::optional<uint64_t> ProtobufReader::read_varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> ProtobufReader::read_fixed(size_t size) {
  if (rest_.size() < size) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(rest_[i]);
  rest_.remove_prefix(size);
  return value;
}

}  // namespace octavo::tokenizer
