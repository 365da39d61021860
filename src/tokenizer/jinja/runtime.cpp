#include "tokenizer/jinja/runtime.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/objects.h"
#include "tokenizer/jinja/repr.h"

namespace octavo::tokenizer::jinja {
namespace {

Status type_error(std::string_view what, const Value& v) {
  if (v.is_undefined()) return invalid_argument(v.undefined().message());
  return invalid_argument(format("{}, not '{}'", what, type_name(v)));
}

}  // namespace

Status Runtime::charge(int64_t steps) {
  steps_ -= steps;
  if (steps_ < 0) return invalid_argument("the template takes too many steps");
  if (heap_.used_bytes() > kMaxHeapBytes) {
    return invalid_argument("the template takes too much memory");
  }
  return {};
}

Status Runtime::check_text(size_t bytes) {
  if (bytes > kMaxTextBytes) return invalid_argument("a text is longer than 64 MiB");
  return {};
}

Status Runtime::charge_text(size_t bytes) {
  OCTAVO_TRY(check_text(bytes));
  return charge(static_cast<int64_t>(bytes / kBytesPerStep));
}

Status Runtime::charge_walk(const Value& v) {
  if (!v.is(Kind::kNamespace)) return charge(extent_of(v).weight);
  Extent extent;  // as it is now: attributes change
  for (const Dict::Entry& entry : v.name_space().attributes.entries()) extent.add(entry.value);
  OCTAVO_TRY(extent.check());
  return charge(extent.weight);
}

Result<Value> Runtime::make_text(const TextBuilder& text) {
  OCTAVO_TRY(charge_text(text.size()));
  return Value::of(heap_.str(text));
}

Result<Value> Runtime::make_text(std::string_view text) {
  OCTAVO_TRY(charge_text(text.size()));
  return Value::of(heap_.str(text));
}

Result<Value> Runtime::make_dict(const Dict* dict) {
  OCTAVO_TRY(dict->extent().check());
  return Value::of(dict);
}

Result<const Str*> Runtime::to_text(const Value& v) {
  if (v.is_string()) return &v.str();
  OCTAVO_TRY(charge_walk(v));
  TextBuilder out;
  append_str(out, v);
  return &OCTAVO_TRY(make_text(out)).str();
}

Result<std::span<const Value>> Runtime::iterate(const Value& v) {
  std::vector<Value> items;
  switch (v.kind()) {
    case Kind::kUndefined:
      return std::span<const Value>();
    case Kind::kSequence: {
      Sequence& s = v.sequence();
      OCTAVO_TRY(charge(static_cast<int64_t>(s.items.size())));
      const std::span<const Value> rest = s.items.subspan(s.position);
      if (s.kind == SequenceKind::kIterator) s.position = s.items.size();
      return rest;
    }
    case Kind::kDict:
      for (const Dict::Entry& entry : v.dict().entries()) items.push_back(entry.key);
      break;
    case Kind::kString:
      OCTAVO_TRY(charge(static_cast<int64_t>(v.text().size())));
      for (size_t i = 0; i < v.text().size();) {
        const size_t end = i + utf8_decode(v.text(), i).size_bytes;
        items.push_back(Value::of(heap_.substr(v.str(), i, end)));
        i = end;
      }
      break;
    default:
      return invalid_argument(format("'{}' object is not iterable", type_name(v)));
  }
  OCTAVO_TRY(charge(static_cast<int64_t>(items.size())));
  return heap_.copy(std::span<const Value>(items));
}

Result<int64_t> Runtime::length(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      OCTAVO_TRY(charge_chars(v.text().size()));
      return static_cast<int64_t>(char_count(v.text()));
    case Kind::kSequence:
      if (v.sequence().kind == SequenceKind::kIterator) break;
      return static_cast<int64_t>(v.sequence().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(v.dict().size());
    case Kind::kLoop:
      return OCTAVO_TRY(loop_attribute(v.loop(), "length")).integer();
    default:
      break;
  }
  return invalid_argument(format("object of type '{}' has no length", type_name(v)));
}

Result<bool> Runtime::contains(const Value& container, const Value& element) {
  if (container.is_string()) {
    if (!element.is_string())
      return type_error("'in <string>' needs a string on its left", element);
    OCTAVO_TRY(charge_text(container.text().size()));
    return find_text(container.text(), element.text()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    if (!hashable(element)) return type_error("a key must be hashable", element);
    return container.dict().find(element) != nullptr;
  }
  if (!container.is(Kind::kSequence) && !container.is_undefined()) {
    return type_error("'in' needs a container on its right", container);
  }
  OCTAVO_TRY(charge_walk(container));
  const std::span<const Value> items = OCTAVO_TRY(iterate(container));
  return std::any_of(items.begin(), items.end(),
                     [&element](const Value& item) { return equals(item, element); });
}

Result<Value> Runtime::find_attribute(const Value& object, const Str& name) {
  const MethodEntry* method = nullptr;
  switch (object.kind()) {
    case Kind::kUndefined:
      return invalid_argument(object.undefined().message());
    case Kind::kString:
      method = find_string_method(name.text);
      break;
    case Kind::kNamespace: {
      const Value* found = object.name_space().attributes.find(name.text);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kLoop: {
      const Value found = OCTAVO_TRY(loop_attribute(object.loop(), name.text));
      if (!found.missing()) return found;
      method = find_container_method(object, name.text);
      break;
    }
    case Kind::kMacro:
      if (name.text != "name") return Value();
      if (object.macro().function->name == nullptr) return Value::none();
      return Value::of(object.macro().function->name);
    case Kind::kCycler:
      if (name.text == "current") {
        return object.cycler().items[object.cycler().position];
      }
      method = find_container_method(object, name.text);
      break;
    case Kind::kSequence:
      if (object.sequence().kind == SequenceKind::kGroup) {
        if (name.text == "grouper") return object.sequence().items[0];
        if (name.text == "list") return object.sequence().items[1];
      }
      method = find_container_method(object, name.text);
      break;
    default:
      method = find_container_method(object, name.text);
      break;
  }
  if (method == nullptr) return Value();
  if (method->changes) {
    return heap_.undefined(heap_.copy(std::string_view(
        format("the method '{}' of '{}' is not allowed: templates cannot change values", name.text,
               type_name(object)))));
  }
  return Value::of(heap_.make<Method>(object, method));
}

Result<Value> Runtime::find_item(const Value& object, const Value& key) {
  if (object.is_undefined()) return invalid_argument(object.undefined().message());
  if (object.is_dict()) {
    if (!hashable(key)) return Value();
    const Value* found = object.dict().find(key);
    return found == nullptr ? Value() : *found;
  }
  if (!key.is_integral()) return Value();
  int64_t index = key.integer();
  if (object.is_string()) {
    const std::string_view text = object.text();
    OCTAVO_TRY(charge_chars(text.size()));
    if (index < 0) index += static_cast<int64_t>(char_count(text));
    if (index < 0) return Value();
    const size_t begin = char_offset(text, static_cast<size_t>(index));
    if (begin >= text.size()) return Value();
    return Value::of(
        heap_.substr(object.str(), begin, begin + utf8_decode(text, begin).size_bytes));
  }
  if (!object.is(Kind::kSequence)) return Value();
  const Sequence& s = object.sequence();
  if (s.is_dict_view() || s.kind == SequenceKind::kIterator) return Value();
  if (index < 0) index += static_cast<int64_t>(s.items.size());
  if (index < 0 || index >= static_cast<int64_t>(s.items.size())) return Value();
  return s.items[static_cast<size_t>(index)];
}

Result<Value> Runtime::get_item(const Value& object, const Value& key) {
  const Value item = OCTAVO_TRY(find_item(object, key));
  if (!item.missing()) return item;
  if (key.is_string()) {
    const Value attribute = OCTAVO_TRY(find_attribute(object, key.str()));
    if (!attribute.missing()) return attribute;
  }
  return Value::of(heap_.make<Undefined>(std::string_view(), type_name(object), key));
}

Result<Value> Runtime::get_attribute(const Value& object, const Str& name) {
  const Value attribute = OCTAVO_TRY(find_attribute(object, name));
  if (!attribute.missing()) return attribute;
  const Value item = OCTAVO_TRY(find_item(object, Value::of(&name)));
  if (!item.missing()) return item;
  return Value::of(heap_.make<Undefined>(std::string_view(), type_name(object), Value::of(&name)));
}

Result<int64_t> to_index(const Value& v, std::string_view what) {
  if (v.is_integral()) return v.integer();
  return type_error(format("{} must be an integer", what), v);
}

Result<const Str*> to_string_argument(const Value& v, std::string_view what) {
  if (v.is_string()) return &v.str();
  return type_error(format("{} must be a string", what), v);
}

Status bind_arguments(const CallArgs& args, std::span<const std::string_view> names,
                      size_t required, std::span<Value> bound) {
  if (args.positional.size() > names.size()) {
    return invalid_argument(
        format("at most {} arguments expected, {} given", names.size(), args.positional.size()));
  }
  std::copy(args.positional.begin(), args.positional.end(), bound.begin());
  for (const auto& [name, value] : args.keyword) {
    const auto found = std::find(names.begin(), names.end(), name->text);
    if (found == names.end()) {
      return invalid_argument(format("unexpected keyword argument '{}'", name->text));
    }
    Value& target = bound[static_cast<size_t>(found - names.begin())];
    if (!target.missing()) {
      return invalid_argument(format("the argument '{}' is given twice", name->text));
    }
    target = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i].missing()) return invalid_argument(format("argument {} is missing", i + 1));
  }
  return {};
}

}  // namespace octavo::tokenizer::jinja
