#include "tokenizer/jinja/repr.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/objects.h"
#include "tokenizer/unicode_case.h"

namespace octavo::tokenizer::jinja {
namespace {

void append_escaped(TextBuilder& out, char32_t c, std::string_view raw, char quote, bool tainted) {
  std::string escaped;
  switch (c) {
    case U'\n':
      escaped = "\\n";
      break;
    case U'\r':
      escaped = "\\r";
      break;
    case U'\t':
      escaped = "\\t";
      break;
    case U'\\':
      escaped = "\\\\";
      break;
    default:
      if (c == static_cast<char32_t>(quote)) {
        escaped = {'\\', quote};
      } else if (c < 0x7F ? c < 0x20 : !unicode_is_printable(c)) {
        const auto code = static_cast<uint32_t>(c);
        escaped = c < 0x100     ? format("\\x{:02x}", code)
                  : c < 0x10000 ? format("\\u{:04x}", code)
                                : format("\\U{:08x}", code);
      }
  }
  out.append_marked(escaped.empty() ? raw : std::string_view(escaped), tainted);
}

void append_string_repr(TextBuilder& out, const Str& s) {
  const bool has_single = s.text.find('\'') != std::string_view::npos;
  const char quote = has_single && s.text.find('"') == std::string_view::npos ? '"' : '\'';
  if (s.markup) out.append("Markup(");
  out.append(quote);
  TaintCursor taint(s);
  for (size_t i = 0; i < s.text.size();) {
    const Utf8Char c = utf8_decode(s.text, i);
    append_escaped(out, c.code_point, s.text.substr(i, c.size_bytes), quote, taint.at(i));
    i += c.size_bytes;
  }
  out.append(quote);
  if (s.markup) out.append(')');
}

// A namespace is written out only where it is the whole value, as it may hold itself.
void append_nested(TextBuilder& out, const Value& v, bool outermost = false);

void append_items(TextBuilder& out, std::span<const Value> items) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(", ");
    first = false;
    append_nested(out, item);
  }
}

void append_dict(TextBuilder& out, const Dict& dict) {
  out.append('{');
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!first) out.append(", ");
    first = false;
    append_nested(out, entry.key);
    out.append(": ");
    append_nested(out, entry.value);
  }
  out.append('}');
}

void append_sequence(TextBuilder& out, const Sequence& s) {
  if (s.kind == SequenceKind::kRange) {
    out.append(format("range({}, {}", s.start, s.stop));
    out.append(s.step == 1 ? ")" : format(", {})", s.step));
    return;
  }
  if (s.kind == SequenceKind::kIterator) {
    out.append("<generator object>");
    return;
  }
  if (s.is_tuple()) {
    out.append('(');
    append_items(out, s.items);
    out.append(s.items.size() == 1 ? ",)" : ")");
    return;
  }
  if (s.is_dict_view()) {
    out.append(type_name(Value::of(const_cast<Sequence*>(&s))));
    out.append('(');
  }
  out.append('[');
  append_items(out, s.items);
  out.append(s.is_dict_view() ? "])" : "]");
}

void append_nested(TextBuilder& out, const Value& v, bool outermost) {
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      out.append("Undefined");
      break;
    case Kind::kNone:
      out.append("None");
      break;
    case Kind::kBool:
      out.append(v.boolean() ? "True" : "False");
      break;
    case Kind::kInt:
      out.append(format("{}", v.integer()));
      break;
    case Kind::kBigInt:
      out.append(v.text());
      break;
    case Kind::kFloat:
      out.append(float_repr(v.real()));
      break;
    case Kind::kString:
      append_string_repr(out, v.str());
      break;
    case Kind::kSequence:
      append_sequence(out, v.sequence());
      break;
    case Kind::kDict:
      append_dict(out, v.dict());
      break;
    case Kind::kNamespace:
      out.append("<Namespace ");
      if (outermost) {
        append_dict(out, v.name_space().attributes);
      } else {
        out.append("...");
      }
      out.append('>');
      break;
    case Kind::kMacro:
      out.append(format("<Macro {}>", macro_name_repr(v.macro())));
      break;
    case Kind::kLoop: {
      const Loop& loop = v.loop();
      const auto length = std::max(loop.length, static_cast<int64_t>(loop.items.size()));
      out.append(format("<LoopContext {}/{}>", loop.index0 + 1, length));
      break;
    }
    default:
      out.append(format("<{}>", type_name(v)));
  }
}

}  // namespace

std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), d, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), d, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

void append_str(TextBuilder& out, const Value& v) {
  if (v.is_string()) {
    out.append(v.str());
  } else if (!v.is_undefined() && !v.missing()) {
    append_repr(out, v);
  }
}

void append_repr(TextBuilder& out, const Value& v) {
  append_nested(out, v, true);
}

std::string repr_text(const Value& v) {
  TextBuilder out;
  append_repr(out, v);
  return out.take_text();
}

}  // namespace octavo::tokenizer::jinja
