// Functions that every template can call.
#include <algorithm>
#include <ctime>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/runtime.h"

namespace octavo::tokenizer::jinja {
namespace {

__extension__ using Int128 = __int128;

constexpr int64_t kMaxRange = 100'000;  // the sandbox's
constexpr size_t kMaxDateFormat = 1024;

Result<Value> make_range(Runtime& rt, const CallArgs& args) {
  const std::array<Value, 3> bound = OCTAVO_TRY(bind<3>(args, {"", "", ""}, 1));
  int64_t start = 0;
  int64_t stop = OCTAVO_TRY(to_index(bound[0], "a range's bound"));
  int64_t step = 1;
  if (!bound[1].missing()) {
    start = stop;
    stop = OCTAVO_TRY(to_index(bound[1], "a range's bound"));
  }
  if (!bound[2].missing()) step = OCTAVO_TRY(to_index(bound[2], "a range's step"));
  if (step == 0) return invalid_argument("a range's step cannot be zero");
  std::vector<Value> items;
  // In 128 bits, as the bounds may be anything.
  for (Int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      return invalid_argument(format("a range has more than {} items", kMaxRange));
    }
    items.push_back(Value::integer(static_cast<int64_t>(i)));
  }
  OCTAVO_TRY(rt.charge(static_cast<int64_t>(items.size())));
  const Value range = OCTAVO_TRY(rt.heap().sequence(SequenceKind::kRange, items));
  range.sequence().start = start;
  range.sequence().stop = stop;
  range.sequence().step = step;
  return range;
}

// The arguments of Python's dict(): a mapping or pairs, then keywords.
Status fill_dict(Runtime& rt, const CallArgs& args, Dict& dict) {
  if (args.positional.size() > 1) return invalid_argument("at most one positional argument");
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_undefined()) return invalid_argument(source.undefined().message());
    if (source.is_dict()) {
      OCTAVO_TRY(rt.charge(static_cast<int64_t>(source.dict().size())));
      for (const Dict::Entry& entry : source.dict().entries()) dict.set(entry.key, entry.value);
    } else {
      for (const Value& item : OCTAVO_TRY(rt.iterate(source))) {
        const std::span<const Value> pair = OCTAVO_TRY(rt.iterate(item));
        if (pair.size() != 2) return invalid_argument("a dict is made of pairs");
        if (!hashable(pair[0])) return invalid_argument("a dict's key must be hashable");
        dict.set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : args.keyword) dict.set(Value::of(name), value);
  return {};
}

Result<Value> make_dict(Runtime& rt, const CallArgs& args) {
  Dict* dict = rt.heap().dict();
  OCTAVO_TRY(fill_dict(rt, args, *dict));
  return rt.make_dict(dict);
}

Result<Value> make_namespace(Runtime& rt, const CallArgs& args) {
  auto* object = rt.heap().make<Namespace>(rt.heap().resource());
  OCTAVO_TRY(fill_dict(rt, args, object->attributes));
  for (const Dict::Entry& entry : object->attributes.entries()) {
    if (entry.key.is_string() && entry.key.text().starts_with('_')) {
      return invalid_argument("a namespace's attributes cannot start with an underscore");
    }
  }
  return Value::of(object);
}

Result<Value> make_cycler(Runtime& rt, const CallArgs& args) {
  if (!args.keyword.empty()) return invalid_argument("a cycler takes no keywords");
  if (args.positional.empty()) return invalid_argument("at least one item has to be provided");
  return Value::of(rt.heap().make<Cycler>(rt.heap().copy(std::span<const Value>(args.positional))));
}

Result<Value> make_joiner(Runtime& rt, const CallArgs& args) {
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {"sep"}, 0));
  const Value separator = bound[0].missing() ? Value::of(rt.heap().borrow(", ")) : bound[0];
  return Value::of(rt.heap().make<Joiner>(separator));
}

// As Python's datetime does for a time without a zone, before the C library sees the format.
std::string prepare_date_format(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || next == '\0') {
      out += pattern[i];
      continue;
    }
    ++i;
    if (next == 'f') {
      out += "000000";
    } else if (next != 'z' && next != 'Z') {
      out += '%';
      out += next;
    }
  }
  return out;
}

Result<Value> strftime_now(Runtime& rt, const CallArgs& args) {
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {"format"}, 1));
  const Str* pattern = OCTAVO_TRY(to_string_argument(bound[0], "a date format"));
  if (pattern->text.size() > kMaxDateFormat) return invalid_argument("a date format is too long");
  OCTAVO_TRY(rt.charge(64));  // for the buffer below
  const auto now = static_cast<time_t>(rt.now_s());
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) return invalid_argument("the time cannot be shown");
  // The space keeps the result from being empty, which would look like too small a buffer.
  const std::string prepared = prepare_date_format(pattern->text) + " ";
  std::string out(64 * kMaxDateFormat, '\0');
  const size_t size = std::strftime(out.data(), out.size(), prepared.c_str(), &local);
  if (size == 0) return invalid_argument("a date format gives too long a text");
  out.resize(size - 1);
  TextBuilder text;
  text.append_marked(out, !pattern->taint.empty());
  return rt.make_text(text);
}

// Fails with the template's own message.
Result<Value> raise_exception(Runtime& rt, const CallArgs& args) {
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {"message"}, 1));
  const Str* message = OCTAVO_TRY(rt.to_text(bound[0]));
  rt.keep_error_as_is();
  return invalid_argument(std::string(message->text));
}

constexpr Function kFunctions[] = {
    {"range", make_range},          {"dict", make_dict},     {"namespace", make_namespace},
    {"cycler", make_cycler},        {"joiner", make_joiner}, {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

const Function* find_function(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [name](const Function& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

}  // namespace octavo::tokenizer::jinja
