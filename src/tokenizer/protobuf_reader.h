// ProtobufReader: the fields of one message in protobuf's wire format, one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace octavo::tokenizer {

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  struct Field {
    uint64_t number = 0;
    uint64_t value = 0;      // of a varint or a fixed-size number
    std::string_view bytes;  // of a string or a message; of the message given
  };

  // nullopt at the end, and where what follows is no field: then failed().
  std::optional<Field> next();
  bool failed() const { return failed_; }

 private:
  std::optional<uint64_t> read_varint();
  std::optional<uint64_t> read_fixed(size_t size);
  std::optional<Field> read_field();

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace octavo::tokenizer
