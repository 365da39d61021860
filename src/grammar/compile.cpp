#include "grammar/compile.h"

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "base/utf8.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/regex.h"

namespace octavo::grammar {
namespace {

// Of a schema or grammar; those in use have some thousand.
constexpr size_t kMaxBytes = 1 << 20;

Status check_one(const StructuredOutputs& outputs) {
  const int given = outputs.json.has_value() + outputs.regex.has_value() +
                    outputs.grammar.has_value() + !outputs.choice.empty() + outputs.json_object;
  if (given == 1) return {};
  return invalid_argument(
      "structured_outputs must have exactly one of json, regex, choice, grammar and json_object");
}

const char* kind_of(const StructuredOutputs& outputs) {
  if (outputs.json) return "json";
  if (outputs.regex) return "regex";
  if (outputs.grammar) return "grammar";
  return outputs.json_object ? "json_object" : "choice";
}

std::string source_of(const StructuredOutputs& outputs) {
  if (!outputs.source.empty()) return outputs.source;
  return format("structured_outputs.{}", kind_of(outputs));
}

Status check_size(const StructuredOutputs& outputs) {
  size_t size = 0;
  for (const auto* text : {&outputs.json, &outputs.regex, &outputs.grammar}) {
    if (*text) size += (*text)->size();
  }
  for (const std::string& choice : outputs.choice) size += choice.size();
  if (size <= kMaxBytes) return {};
  return invalid_argument(format("{} has {} bytes, over {}", source_of(outputs), size, kMaxBytes));
}

Result<RuleId> parse_schema(const std::string& text, Builder& builder) {
  const auto schema = parse_json(text, "the schema");
  if (!schema.ok()) return invalid_argument(schema.status().message());
  return compile_json_schema(*schema, builder);
}

RuleId add_root(Builder& builder, ExprId expr) {
  const RuleId root = builder.add_rule("the answer");
  builder.define(root, expr);
  return root;
}

Result<RuleId> parse_choice(const std::vector<std::string>& choices, Builder& builder) {
  for (const std::string& choice : choices) {
    if (!utf8_is_valid(choice)) return invalid_argument("it is not valid UTF-8");
  }
  return add_root(builder, builder.literals(choices));
}

Result<RuleId> parse_pattern(const std::string& text, Builder& builder) {
  const SpellChars spell = [&](const CharSet& set) { return builder.chars(set); };
  return add_root(builder, OCTAVO_TRY(parse_regex(text, builder, spell)));
}

Result<RuleId> parse(const StructuredOutputs& outputs, Builder& builder) {
  if (outputs.json) return parse_schema(*outputs.json, builder);
  if (outputs.regex) return parse_pattern(*outputs.regex, builder);
  if (outputs.grammar) return parse_gbnf(*outputs.grammar, builder);
  if (outputs.json_object) return add_root(builder, JsonText(builder).any_object());
  return parse_choice(outputs.choice, builder);
}

}  // namespace

Result<Automaton> compile(const StructuredOutputs& outputs) {
  OCTAVO_TRY(check_one(outputs));
  OCTAVO_TRY(check_size(outputs));
  Builder builder;
  const auto root = parse(outputs, builder);
  auto automaton = root.ok() ? builder.build(*root) : Result<Automaton>(root.status());
  if (automaton.ok()) return automaton;
  const Status& status = automaton.status();
  return Status(status.code(), format("{}: {}", source_of(outputs), status.message()));
}

}  // namespace octavo::grammar
