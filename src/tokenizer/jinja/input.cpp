#include "tokenizer/jinja/input.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace octavo::tokenizer::jinja {
namespace {

// What a caller fills with text of its own; all other variables are the model's or switches.
constexpr std::string_view kCallersVariables[] = {"messages", "tools", "documents", "custom_tools",
                                                  "functions"};
// Roles that templates put into control tokens of their own making.
constexpr std::string_view kKnownRoles[] = {"system",    "user", "assistant",
                                            "developer", "tool", "ipython"};

template <size_t N>
bool is_one_of(std::string_view text, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), text) != std::end(words);
}

class Converter {
 public:
  struct Options {
    bool taints = false;
    bool conversation = false;  // an array of messages
    bool copies = false;        // the text of strings, instead of borrowing it
  };
  Converter(Runtime& rt, const Options& options) : rt_(rt), options_(options) {}

  Result<Value> convert(const Json& json, uint32_t depth);

 private:
  Value string(std::string_view text, bool taints) {
    std::span<const TextSpan> taint;
    if (taints && !text.empty()) {
      const TextSpan whole{0, text.size()};
      taint = rt_.heap().copy(std::span<const TextSpan>(&whole, 1));
    }
    const std::string_view kept = options_.copies ? rt_.heap().copy(text) : text;
    return Value::of(rt_.heap().make<Str>(kept, taint));
  }
  Result<Value> array(const JsonArray& json, uint32_t depth);
  Result<Value> object(const JsonObject& json, uint32_t depth);

  Runtime& rt_;
  Options options_;
};

Result<Value> Converter::convert(const Json& json, uint32_t depth) {
  OCTAVO_TRY(rt_.charge(1));
  if (depth > Extent::kMaxDepth) return invalid_argument("a value is nested too deeply");
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::none();
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64:
      if (json.get_uint64() <= static_cast<uint64_t>(INT64_MAX)) {
        return Value::integer(static_cast<int64_t>(json.get_uint64()));
      }
      return Value::big_int(rt_.heap().str(format("{}", json.get_uint64())));
    case boost::json::kind::double_:
      return Value::real(json.get_double());
    case boost::json::kind::string:
      return string(to_view(json.get_string()), options_.taints);
    case boost::json::kind::array:
      return array(json.get_array(), depth);
    case boost::json::kind::object:
      return object(json.get_object(), depth);
  }
  return Value::none();
}

Result<Value> Converter::array(const JsonArray& json, uint32_t depth) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (const Json& item : json) items.push_back(OCTAVO_TRY(convert(item, depth + 1)));
  return rt_.heap().list(items);
}

Result<Value> Converter::object(const JsonObject& json, uint32_t depth) {
  constexpr uint32_t kMessageDepth = 1;
  Dict* dict = rt_.heap().dict();
  for (const auto& entry : json) {
    const std::string_view key(entry.key().data(), entry.key().size());
    const bool is_role = options_.conversation && depth == kMessageDepth && key == "role" &&
                         entry.value().is_string() &&
                         is_one_of(to_view(entry.value().get_string()), kKnownRoles);
    const Value value = is_role ? string(to_view(entry.value().get_string()), false)
                                : OCTAVO_TRY(convert(entry.value(), depth + 1));
    dict->set(string(key, options_.taints), value);
  }
  return rt_.make_dict(dict);
}

}  // namespace

Result<Value> value_of_variable(Runtime& rt, std::string_view name, const Json& json) {
  Converter::Options options;
  options.taints = is_one_of(name, kCallersVariables);
  options.conversation = name == "messages";
  return Converter(rt, options).convert(json, 0);
}

Result<Value> value_of_parsed(Runtime& rt, const Json& json, bool taints) {
  Converter::Options options;
  options.taints = taints;
  options.copies = true;
  return Converter(rt, options).convert(json, 0);
}

}  // namespace octavo::tokenizer::jinja
