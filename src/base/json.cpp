#include "base/json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/kind.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"

namespace octavo {
namespace {

constexpr int kMaxDepth = 128;

void append_string(std::string& out, std::string_view raw) {
  const std::string clean = utf8_is_valid(raw) ? std::string() : utf8_replace_invalid(raw);
  const std::string_view text = clean.empty() ? raw : std::string_view(clean);
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += format("\\u{:04x}", byte);
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";  // JSON has no NaN or infinity
    return;
  }
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_newline(std::string& out, int indent, int depth) {
  if (indent < 0) return;
  out += '\n';
  out.append(static_cast<size_t>(indent) * depth, ' ');
}

void append(std::string& out, const Json& value, int indent, int depth);

void append_array(std::string& out, const JsonArray& array, int indent, int depth) {
  out += '[';
  bool first = true;
  for (const Json& item : array) {
    if (!first) out += ',';
    first = false;
    append_newline(out, indent, depth + 1);
    append(out, item, indent, depth + 1);
  }
  if (!first) append_newline(out, indent, depth);
  out += ']';
}

void append_object(std::string& out, const JsonObject& object, int indent, int depth) {
  out += '{';
  bool first = true;
  for (const auto& item : object) {
    if (!first) out += ',';
    first = false;
    append_newline(out, indent, depth + 1);
    append_string(out, {item.key().data(), item.key().size()});
    out += indent < 0 ? ":" : ": ";
    append(out, item.value(), indent, depth + 1);
  }
  if (!first) append_newline(out, indent, depth);
  out += '}';
}

void append(std::string& out, const Json& value, int indent, int depth) {
  switch (value.kind()) {
    case boost::json::kind::null:
      out += "null";
      break;
    case boost::json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      break;
    case boost::json::kind::int64:
      out += format("{}", value.get_int64());
      break;
    case boost::json::kind::uint64:
      out += format("{}", value.get_uint64());
      break;
    case boost::json::kind::double_:
      append_double(out, value.get_double());
      break;
    case boost::json::kind::string:
      append_string(out, to_view(value.get_string()));
      break;
    case boost::json::kind::array:
      append_array(out, value.get_array(), indent, depth);
      break;
    case boost::json::kind::object:
      append_object(out, value.get_object(), indent, depth);
      break;
  }
}

// What Boost's parser finds, put together to a value. Boost 1.81 reads one in ten of the numbers
// that need 17 digits a unit in the last place off; hence the text of a double is read again,
// exactly.
class Builder {
 public:
  using Error = boost::json::error_code;
  using View = boost::json::string_view;

  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;

  Builder() { stack_.reset(); }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_array_begin(Error&) { return true; }
  bool on_array_end(size_t size, Error&) { return stack_.push_array(size), true; }
  bool on_object_begin(Error&) { return true; }
  bool on_object_end(size_t size, Error&) { return stack_.push_object(size), true; }
  bool on_key_part(View text, size_t, Error&) { return stack_.push_chars(text), true; }
  bool on_key(View text, size_t, Error&) { return stack_.push_key(text), true; }
  bool on_string_part(View text, size_t, Error&) { return stack_.push_chars(text), true; }
  bool on_string(View text, size_t, Error&) { return stack_.push_string(text), true; }
  bool on_number_part(View text, Error&) { return number_.append(text.data(), text.size()), true; }
  bool on_int64(int64_t value, View, Error&) {
    number_.clear();
    return stack_.push_int64(value), true;
  }
  bool on_uint64(uint64_t value, View, Error&) {
    number_.clear();
    return stack_.push_uint64(value), true;
  }
  bool on_double(double value, View text, Error&) {
    number_.append(text.data(), text.size());
    std::from_chars(number_.data(), number_.data() + number_.size(), value);  // or as Boost has it
    number_.clear();
    return stack_.push_double(value), true;
  }
  bool on_bool(bool value, Error&) { return stack_.push_bool(value), true; }
  bool on_null(Error&) { return stack_.push_null(), true; }
  bool on_comment_part(View, Error&) { return true; }
  bool on_comment(View, Error&) { return true; }

  Json release() { return stack_.release(); }

 private:
  boost::json::value_stack stack_;
  std::string number_;
};

Status wrong_type(std::string_view source, std::string_view key, const char* expected) {
  return data_loss(format("{}: '{}' must be {}", source, key, expected));
}

Result<const Json*> require(const Json& object, std::string_view key, std::string_view source) {
  const Json* value = json_find(object, key);
  if (value == nullptr) return data_loss(format("{}: '{}' is missing", source, key));
  return value;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view source) {
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::json::basic_parser<Builder> parser(options);
  boost::json::error_code error;
  const size_t consumed = parser.write_some(false, text.data(), text.size(), error);
  if (error) {
    return data_loss(
        format("{}: not valid JSON near byte {}: {}", source, consumed, error.message()));
  }
  if (text.find_first_not_of(" \t\r\n", consumed) != std::string_view::npos) {
    return data_loss(
        format("{}: not valid JSON: text after the document at byte {}", source, consumed));
  }
  return parser.handler().release();
}

std::string dump_json(const Json& value, int indent) {
  std::string out;
  append(out, value, indent, 0);
  return out;
}

const Json* json_find(const Json& object, std::string_view key) {
  const JsonObject* fields = object.if_object();
  if (fields == nullptr) return nullptr;
  const Json* value = fields->if_contains(boost::json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<int64_t> json_int(const Json& object, std::string_view key, std::string_view source) {
  const Json* value = OCTAVO_TRY(require(object, key, source));
  if (value->is_int64()) return value->get_int64();
  if (value->is_uint64()) {
    if (value->get_uint64() <= static_cast<uint64_t>(INT64_MAX)) {
      return static_cast<int64_t>(value->get_uint64());
    }
    return wrong_type(source, key, "an integer below 2^63");
  }
  return wrong_type(source, key, "an integer");
}

Result<double> json_double(const Json& object, std::string_view key, std::string_view source) {
  const Json* value = OCTAVO_TRY(require(object, key, source));
  if (value->is_double()) return value->get_double();
  if (value->is_int64()) return static_cast<double>(value->get_int64());
  if (value->is_uint64()) return static_cast<double>(value->get_uint64());
  return wrong_type(source, key, "a number");
}

Result<bool> json_bool(const Json& object, std::string_view key, std::string_view source) {
  const Json* value = OCTAVO_TRY(require(object, key, source));
  if (!value->is_bool()) return wrong_type(source, key, "true or false");
  return value->get_bool();
}

Result<std::string> json_string(const Json& object, std::string_view key, std::string_view source) {
  const Json* value = OCTAVO_TRY(require(object, key, source));
  if (!value->is_string()) return wrong_type(source, key, "a string");
  return std::string(to_view(value->get_string()));
}

Result<const JsonArray*> json_array(const Json& object, std::string_view key,
                                    std::string_view source) {
  const Json* value = OCTAVO_TRY(require(object, key, source));
  if (!value->is_array()) return wrong_type(source, key, "an array");
  return &value->get_array();
}

}  // namespace octavo
