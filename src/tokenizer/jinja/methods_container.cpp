// Methods of dicts, lists, tuples, loops and cyclers. Those that would change a value are known,
// so that they shadow keys of the same name as they do in Python, but cannot be called.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/objects.h"
#include "tokenizer/jinja/runtime.h"

namespace octavo::tokenizer::jinja {
namespace {

using Args = const CallArgs&;

Result<Value> dict_view(Runtime& rt, const Value& self, Args args, SequenceKind kind) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  std::vector<Value> items;
  OCTAVO_TRY(rt.charge(static_cast<int64_t>(self.dict().size())));
  for (const Dict::Entry& entry : self.dict().entries()) {
    if (kind == SequenceKind::kDictItems) {
      const Value pair[] = {entry.key, entry.value};
      items.push_back(OCTAVO_TRY(rt.heap().tuple(pair)));
    } else {
      items.push_back(kind == SequenceKind::kDictKeys ? entry.key : entry.value);
    }
  }
  return rt.heap().sequence(kind, items);
}

template <SequenceKind kind>
Result<Value> dict_view(Runtime& rt, const Value& self, Args args) {
  return dict_view(rt, self, args, kind);
}

Result<Value> dict_get(Runtime&, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"", ""}, 1));
  if (!hashable(bound[0])) {
    return invalid_argument(format("'{}' is not hashable", type_name(bound[0])));
  }
  const Value* found = self.dict().find(bound[0]);
  if (found != nullptr) return *found;
  return bound[1].missing() ? Value::none() : bound[1];
}

Result<Value> copy_self(Runtime&, const Value& self, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  return self;  // values do not change, so nobody can tell a copy
}

Result<Value> sequence_count(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {""}, 1));
  OCTAVO_TRY(rt.charge_walk(self));
  const std::span<const Value> items = self.sequence().items;
  return Value::integer(std::count_if(
      items.begin(), items.end(), [&bound](const Value& item) { return equals(item, bound[0]); }));
}

Result<Value> sequence_index(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"", "", ""}, 1));
  OCTAVO_TRY(rt.charge_walk(self));
  const std::span<const Value> items = self.sequence().items;
  const auto size = static_cast<int64_t>(items.size());
  int64_t from = bound[1].missing() ? 0 : OCTAVO_TRY(to_index(bound[1], "the start"));
  int64_t to = bound[2].missing() ? size : OCTAVO_TRY(to_index(bound[2], "the end"));
  from = std::clamp<int64_t>(from < 0 ? from + size : from, 0, size);
  to = std::clamp<int64_t>(to < 0 ? to + size : to, 0, size);
  for (int64_t i = from; i < to; ++i) {
    if (equals(items[static_cast<size_t>(i)], bound[0])) return Value::integer(i);
  }
  return invalid_argument("the value is not in the list");
}

Result<Value> loop_cycle(Runtime&, const Value& self, Args args) {
  if (!args.keyword.empty()) return invalid_argument("cycle takes no keywords");
  if (args.positional.empty()) return invalid_argument("no items for cycling given");
  const auto index = static_cast<size_t>(std::max<int64_t>(0, self.loop().index0));
  return args.positional[index % args.positional.size()];
}

Result<Value> loop_changed(Runtime& rt, const Value& self, Args args) {
  if (!args.keyword.empty()) return invalid_argument("changed takes no keywords");
  const Value values = OCTAVO_TRY(rt.heap().tuple(args.positional));
  OCTAVO_TRY(rt.charge_walk(values));
  Value& last = self.loop().last_changed;
  const bool changed = last.missing() || !equals(last, values);
  if (changed) last = values;
  return Value::boolean(changed);
}

Result<Value> cycler_next(Runtime&, const Value& self, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  Cycler& cycler = self.cycler();
  const Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return current;
}

Result<Value> cycler_reset(Runtime&, const Value& self, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  self.cycler().position = 0;
  return Value::none();
}

constexpr MethodEntry kDictMethods[] = {
    {"get", dict_get},
    {"items", dict_view<SequenceKind::kDictItems>},
    {"keys", dict_view<SequenceKind::kDictKeys>},
    {"values", dict_view<SequenceKind::kDictValues>},
    {"copy", copy_self},
    {"fromkeys", nullptr},
    {"clear", nullptr, true},
    {"pop", nullptr, true},
    {"popitem", nullptr, true},
    {"setdefault", nullptr, true},
    {"update", nullptr, true},
};
constexpr MethodEntry kListMethods[] = {
    {"count", sequence_count},  {"index", sequence_index}, {"copy", copy_self},
    {"append", nullptr, true},  {"clear", nullptr, true},  {"extend", nullptr, true},
    {"insert", nullptr, true},  {"pop", nullptr, true},    {"remove", nullptr, true},
    {"reverse", nullptr, true}, {"sort", nullptr, true},
};
constexpr MethodEntry kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr MethodEntry kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};
constexpr MethodEntry kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

std::span<const MethodEntry> methods_of(const Value& v) {
  switch (v.kind()) {
    case Kind::kDict:
      return kDictMethods;
    case Kind::kLoop:
      return kLoopMethods;
    case Kind::kCycler:
      return kCyclerMethods;
    case Kind::kSequence:
      if (v.sequence().kind == SequenceKind::kList) return kListMethods;
      if (v.sequence().is_tuple() || v.sequence().kind == SequenceKind::kRange) {
        return kTupleMethods;
      }
      return {};
    default:
      return {};
  }
}

}  // namespace

const MethodEntry* find_container_method(const Value& v, std::string_view name) {
  for (const MethodEntry& method : methods_of(v)) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

}  // namespace octavo::tokenizer::jinja
