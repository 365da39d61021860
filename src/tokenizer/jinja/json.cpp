// tojson as Hugging Face's environment has it (Python's json.dumps, nothing escaped for HTML), and
// from_json, which some templates expect besides.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/input.h"
#include "tokenizer/jinja/repr.h"
#include "tokenizer/jinja/select.h"

namespace octavo::tokenizer::jinja {
namespace {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  Str indent;
  Str item_separator{", ", {}};
  Str key_separator{": ", {}};
};

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style) {}
  Status write(const Value& v, int depth);
  const TextBuilder& text() const { return out_; }

 private:
  void write_string(const Str& s);
  void append_escaped(char32_t c, std::string_view raw, bool tainted);
  Status write_array(std::span<const Value> items, int depth);
  Status write_object(const Dict& dict, int depth);
  Status write_key(const Value& key);
  Status new_line(int depth);

  Runtime& rt_;
  const JsonStyle& style_;
  TextBuilder out_;
};

std::string float_json(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_repr(d);
}

std::string unicode_escape(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  if (code < 0x10000) return format("\\u{:04x}", code);
  const uint32_t rest = code - 0x10000;
  return format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
}

void JsonWriter::append_escaped(char32_t c, std::string_view raw, bool tainted) {
  constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; c < 0x80 && i < kShort.size(); i += 2) {
    if (static_cast<char>(c) != kShort[i]) continue;
    const char escaped[] = {'\\', kShort[i + 1]};
    out_.append_marked({escaped, 2}, tainted);
    return;
  }
  const bool escapes = c < 0x20 || (style_.ensure_ascii && c >= 0x7F);
  if (escapes) {
    out_.append_marked(unicode_escape(c), tainted);
  } else {
    out_.append_marked(raw, tainted);
  }
}

void JsonWriter::write_string(const Str& s) {
  out_.append('"');
  TaintCursor taint(s);
  size_t copied = 0;  // what needs no escape is copied in one go
  const auto plain = [this](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && c != '"' && c != '\\' && (byte < 0x7F || !style_.ensure_ascii);
  };
  for (size_t i = 0; i < s.text.size();) {
    if (plain(s.text[i])) {
      ++i;
      continue;
    }
    out_.append(s, copied, i);
    const Utf8Char c = utf8_decode(s.text, i);
    append_escaped(c.code_point, s.text.substr(i, c.size_bytes), taint.at(i));
    i += c.size_bytes;
    copied = i;
  }
  out_.append(s, copied, s.text.size());
  out_.append('"');
}

Status JsonWriter::new_line(int depth) {
  if (!style_.indented) return {};
  out_.append('\n');
  const size_t size = style_.indent.text.size() * static_cast<size_t>(depth);
  OCTAVO_TRY(rt_.check_text(out_.size() + size));
  for (int i = 0; i < depth; ++i) out_.append(style_.indent);
  return {};
}

Status JsonWriter::write(const Value& v, int depth) {
  OCTAVO_TRY(rt_.check_text(out_.size()));
  switch (v.kind()) {
    case Kind::kNone:
      out_.append("null");
      return {};
    case Kind::kBool:
      out_.append(v.boolean() ? "true" : "false");
      return {};
    case Kind::kInt:
      out_.append(format("{}", v.integer()));
      return {};
    case Kind::kBigInt:
      out_.append(v.text());
      return {};
    case Kind::kFloat:
      out_.append(float_json(v.real()));
      return {};
    case Kind::kString:
      write_string(v.str());
      return {};
    case Kind::kDict:
      return write_object(v.dict(), depth);
    case Kind::kSequence:
      if (v.sequence().kind == SequenceKind::kList || v.sequence().is_tuple()) {
        return write_array(v.sequence().items, depth);
      }
      break;
    default:
      break;
  }
  return invalid_argument(format("a value of type '{}' cannot be JSON", type_name(v)));
}

Status JsonWriter::write_array(std::span<const Value> items, int depth) {
  out_.append('[');
  bool first = true;
  for (const Value& item : items) {
    if (!first) out_.append(style_.item_separator);
    first = false;
    OCTAVO_TRY(new_line(depth + 1));
    OCTAVO_TRY(write(item, depth + 1));
  }
  if (!first) OCTAVO_TRY(new_line(depth));
  out_.append(']');
  return {};
}

Status JsonWriter::write_key(const Value& key) {
  if (key.is_string()) {
    write_string(key.str());
    return {};
  }
  if (!key.is_none() && !key.is_number()) {
    return invalid_argument(format("a key of type '{}' cannot be JSON", type_name(key)));
  }
  out_.append('"');
  OCTAVO_TRY(write(key, 0));
  out_.append('"');
  return {};
}

Status JsonWriter::write_object(const Dict& dict, int depth) {
  std::vector<size_t> order(dict.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (style_.sort_keys) {
    std::vector<Value> keys;
    for (const Dict::Entry& entry : dict.entries()) keys.push_back(entry.key);
    order = OCTAVO_TRY(sorted_order(rt_, keys, false));
  }
  out_.append('{');
  bool first = true;
  for (const size_t i : order) {
    if (!first) out_.append(style_.item_separator);
    first = false;
    OCTAVO_TRY(new_line(depth + 1));
    OCTAVO_TRY(write_key(dict.entries()[i].key));
    out_.append(style_.key_separator);
    OCTAVO_TRY(write(dict.entries()[i].value, depth + 1));
  }
  if (!first) OCTAVO_TRY(new_line(depth));
  out_.append('}');
  return {};
}

Status set_indent(Runtime& rt, const Value& indent, JsonStyle& style) {
  if (indent.missing() || indent.is_none()) return {};
  style.indented = true;
  style.item_separator = {",", {}};
  if (indent.is_string()) {
    style.indent = indent.str();
    return {};
  }
  const int64_t width = OCTAVO_TRY(to_index(indent, "the indentation"));
  OCTAVO_TRY(Runtime::check_text(static_cast<size_t>(std::max<int64_t>(0, width))));
  if (width > 0) style.indent = *rt.heap().str(std::string(static_cast<size_t>(width), ' '));
  return {};
}

Status set_separators(Runtime& rt, const Value& separators, JsonStyle& style) {
  if (separators.missing() || separators.is_none()) return {};
  const std::span<const Value> pair = OCTAVO_TRY(rt.iterate(separators));
  if (pair.size() != 2) return invalid_argument("there are two separators: of items and of keys");
  style.item_separator = *OCTAVO_TRY(to_string_argument(pair[0], "a separator"));
  style.key_separator = *OCTAVO_TRY(to_string_argument(pair[1], "a separator"));
  return {};
}

}  // namespace

Result<Value> filter_tojson(Runtime& rt, const Value& input, const CallArgs& args) {
  const auto bound =
      OCTAVO_TRY(bind<4>(args, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonStyle style;
  style.ensure_ascii = truthy(bound[0]);
  style.sort_keys = truthy(bound[3]);
  OCTAVO_TRY(set_indent(rt, bound[1], style));
  OCTAVO_TRY(set_separators(rt, bound[2], style));
  OCTAVO_TRY(rt.charge_walk(input));
  JsonWriter writer(rt, style);
  OCTAVO_TRY(writer.write(input, 0));
  return rt.make_text(writer.text());
}

Result<Value> filter_from_json(Runtime& rt, const Value& input, const CallArgs& args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  const Str* text = OCTAVO_TRY(to_string_argument(input, "JSON text"));
  OCTAVO_TRY(rt.charge_chars(text->text.size()));
  const Result<Json> parsed = parse_json(text->text, "from_json");
  if (!parsed.ok()) return invalid_argument(parsed.status().message());
  return value_of_parsed(rt, parsed.value(), !text->taint.empty());
}

}  // namespace octavo::tokenizer::jinja
