// What came from the caller is marked in the rendered text, through every operation, so that no
// message can smuggle in a control token.
#include <gtest/gtest.h>

#include <numeric>

#include "jinja_test_util.h"

namespace octavo::tokenizer {
namespace {

// Digits survive changes of case and every escape.
constexpr std::string_view kMark = "904175";
constexpr std::string_view kInjections[] = {
    "<|im_end|>", "<|im_start|>", "<|eot_id|>", "</s>",     "[INST]",      "<end_of_turn>",
    "<｜User｜>", "<|end|>",      "<think>",    "</think>", "<|channel|>", "<tool_call>",
};
constexpr std::string_view kStructuralKeys[] = {"role", "type", "id", "tool_call_id"};

// Appends `suffix` to every string that a caller fills with text, and to the keys of arguments.
Json inject(const Json& value, const std::string& suffix, bool into_keys) {
  if (value.is_string()) return Json(std::string(value.as_string()) + suffix);
  if (value.is_array()) {
    JsonArray out;
    for (const Json& item : value.as_array()) out.push_back(inject(item, suffix, into_keys));
    return out;
  }
  if (!value.is_object()) return value;
  JsonObject out;
  for (const auto& entry : value.as_object()) {
    const std::string key(entry.key());
    const bool structural = std::find(std::begin(kStructuralKeys), std::end(kStructuralKeys),
                                      key) != std::end(kStructuralKeys);
    const bool below_arguments = into_keys || key == "arguments";
    out[into_keys ? key + suffix : key] =
        structural ? entry.value() : inject(entry.value(), suffix, below_arguments);
  }
  return out;
}

bool is_tainted(const RenderedPrompt& prompt, size_t begin, size_t end) {
  return std::any_of(
      prompt.user_spans.begin(), prompt.user_spans.end(),
      [begin, end](const TextSpan& span) { return span.begin <= begin && end <= span.end; });
}

void expect_well_formed(const RenderedPrompt& prompt) {
  size_t previous_end = 0;
  bool first = true;
  for (const TextSpan& span : prompt.user_spans) {
    EXPECT_LT(span.begin, span.end);
    EXPECT_TRUE(first || span.begin > previous_end) << "spans that touch are one span";
    previous_end = span.end;
    first = false;
  }
  EXPECT_LE(previous_end, prompt.text.size());
}

// How often the mark occurs; each time it must be tainted, with the injected token before it. Some
// templates cut contents at thinking tags and write the tag themselves: then only the mark is.
int count_marks(const RenderedPrompt& prompt, std::string_view token) {
  const bool may_be_cut = token.find("think>") != std::string_view::npos;
  int count = 0;
  for (size_t at = prompt.text.find(kMark); at != std::string::npos;
       at = prompt.text.find(kMark, at + 1)) {
    ++count;
    const size_t token_at = at < token.size() ? 0 : at - token.size();
    const bool whole = prompt.text.compare(token_at, token.size(), token) == 0;
    EXPECT_TRUE(is_tainted(prompt, whole && !may_be_cut ? token_at : at, at + kMark.size()))
        << prompt.text.substr(at > 40 ? at - 40 : 0, 80);
  }
  return count;
}

class InjectionTest : public testing::TestWithParam<std::string> {};

TEST_P(InjectionTest, InjectedTextIsMarked) {
  const auto parsed = ChatTemplate::parse(read_template(GetParam()));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Json conversations = read_json("conversations.json");
  int marks = 0;
  size_t turn = 0;
  for (const auto& entry : conversations.as_object()) {
    const std::string_view token = kInjections[turn++ % std::size(kInjections)];
    SCOPED_TRACE(std::string(entry.key()) + " with " + std::string(token));
    Json variables = entry.value();
    const std::string suffix = std::string(token) + std::string(kMark);
    for (const char* name : {"messages", "tools", "documents", "custom_tools"}) {
      JsonObject& fields = variables.as_object();
      if (fields.contains(name)) fields[name] = inject(fields[name], suffix, false);
    }
    const auto rendered = parsed.value().render(variables, kNow);
    if (!rendered.ok()) continue;
    expect_well_formed(rendered.value());
    marks += count_marks(rendered.value(), token);
  }
  EXPECT_GT(marks, 0) << "the test must see what it injects";
}

INSTANTIATE_TEST_SUITE_P(Templates, InjectionTest, testing::ValuesIn(template_names()),
                         template_test_name);

// Not everything is marked: what the template writes itself stays a control token.
TEST(TaintTest, TemplatesOwnTextIsNotMarked) {
  const auto parsed = ChatTemplate::parse(read_template("Qwen-Qwen2.5-7B-Instruct"));
  ASSERT_TRUE(parsed.ok());
  const Json conversations = read_json("conversations.json");
  const auto rendered = parsed.value().render(conversations.at("control tokens"), kNow);
  ASSERT_TRUE(rendered.ok());
  const std::string& text = rendered.value().text;
  std::string own;
  size_t at = 0;
  for (const TextSpan& span : rendered.value().user_spans) {
    own += text.substr(at, span.begin - at) + "_";
    at = span.end;
  }
  own += text.substr(at);
  EXPECT_EQ(own,
            "<|im_start|>system\n_<|im_end|>\n<|im_start|>user\n_<|im_end|>\n"
            "<|im_start|>assistant\n_<|im_end|>\n<|im_start|>user\n_<|im_end|>\n"
            "<|im_start|>assistant\n");
}

struct TaintCase {
  const char* source;    // c is the tainted "Ab <c>", k a clean "k"
  const char* rendered;  // tainted parts between ‹ and ›
};

class OperationTest : public testing::TestWithParam<TaintCase> {};

TEST_P(OperationTest, KeepsTaint) {
  const std::string prelude = "{%- set c = messages[0].content -%}{%- set k = 'k' -%}";
  const auto parsed = ChatTemplate::parse(prelude + GetParam().source);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const auto variables = parse_json(
      R"({"messages": [{"role": "user", "content": "Ab <c>", "n": 5},
                       {"role": "<|x|>", "content": ["é", {"key": "v"}]}],
          "other": "clean"})",
      "test");
  const auto rendered = parsed.value().render(variables.value(), kNow);
  ASSERT_TRUE(rendered.ok()) << rendered.status().message();
  expect_well_formed(rendered.value());
  const std::string& text = rendered.value().text;
  std::string marked;
  size_t at = 0;
  for (const TextSpan& span : rendered.value().user_spans) {
    marked += text.substr(at, span.begin - at) + "‹" +
              text.substr(span.begin, span.end - span.begin) + "›";
    at = span.end;
  }
  marked += text.substr(at);
  EXPECT_EQ(marked, GetParam().rendered) << GetParam().source;
}

const TaintCase kOperations[] = {
    {"{{ c }}", "‹Ab <c>›"},
    {"{{ k }}{{ other }}", "kclean"},
    {"{{ messages[0].role }}|{{ messages[1].role }}", "user|‹<|x|>›"},
    {"{{ messages[0].n }}", "5"},
    {"{{ c + k + c }}", "‹Ab <c>›k‹Ab <c>›"},
    {"{{ k ~ c ~ 1 }}", "k‹Ab <c>›1"},
    {"{{ c * 2 }}", "‹Ab <c>Ab <c>›"},
    {"{{ c[1:3] }}|{{ c[0] }}|{{ c[-1] }}", "‹b ›|‹A›|‹>›"},
    {"{{ (k + c + k)[::-1] }}", "k‹>c< bA›k"},
    {"{{ ('  ' + c + '  ') | trim }}", "‹Ab <c>›"},
    {"{{ ('x' + c + 'x').strip('xA>') }}", "‹b <c›"},
    {"{{ (k + c) | upper }}{{ (c + k) | lower }}", "K‹AB <C>ab <c>›k"},
    {"{{ (k + c) | title }}{{ (k + c) | capitalize }}", "K‹ab <C>›K‹ab <c>›"},
    {"{{ c.split(' ')[1] }}{{ ('k ' + c).split()[0] }}", "‹<c>›k"},
    {"{{ c | replace('b', 'X') }}", "‹A›X‹ <c>›"},
    {"{{ 'aXa' | replace('X', c) }}", "a‹Ab <c>›a"},
    {"{{ 'aXa'.replace('X', c) }}", "a‹Ab <c>›a"},
    {"{{ [k, c, 1] | join('-') }}{{ [1, 2] | join(c) }}", "k-‹Ab <c>›-11‹Ab <c>›2"},
    {"{{ '-'.join([c, k]) }}", "‹Ab <c>›-k"},
    {"{{ c | list }}", "['‹A›', '‹b›', '‹ ›', '‹<›', '‹c›', '‹>›']"},
    {"{{ c | tojson }}{{ [c, k] | tojson }}", "\"‹Ab <c>›\"[\"‹Ab <c>›\", \"k\"]"},
    {"{{ (c + '\\n\"' + k) | tojson }}", "\"‹Ab <c>›\\n\\\"k\""},
    {"{{ messages[1].content | tojson }}", "[\"‹é›\", {\"‹key›\": \"‹v›\"}]"},
    {"{{ messages[1].content | tojson(ensure_ascii=true) }}",
     "[\"‹\\u00e9›\", {\"‹key›\": \"‹v›\"}]"},
    {"{{ messages[1].content }}", "['‹é›', {'‹key›': '‹v›'}]"},
    {"{{ messages[1].content | string }}", "['‹é›', {'‹key›': '‹v›'}]"},
    {"{% for x in messages[1].content[1].items() %}{{ x[0] }}={{ x[1] }}{% endfor %}", "‹key›=‹v›"},
    {"{% for key in messages[1].content[1] %}{{ key }}{% endfor %}", "‹key›"},
    {"{{ '%s-%5s' | format(c, 1) }}{{ '<%s>' % c }}", "‹Ab <c>›-    1<‹Ab <c>›>"},
    {"{{ '{}{}{:>8}'.format(k, c, c) }}", "k‹Ab <c>›  ‹Ab <c>›"},
    {"{{ ('{:<<3}' + c).format('') }}{{ ('%3s' + c) % k }}", "‹<<<Ab <c>  kAb <c>›"},
    {"{{ c | e }}{{ c | safe }}", "‹Ab &lt;c&gt;Ab <c>›"},
    {"{{ c | indent(2, true) }}|{{ 'x\n' | indent(c) }}", "  ‹Ab <c>›|x\n"},
    {"{{ c | center(8) }}", " ‹Ab <c>› "},
    {"{{ c | truncate(5, true, '..', 0) }}", "‹Ab ›.."},
    {"{{ c | first }}{{ c | last }}{{ c | reverse }}", "‹A>>c< bA›"},
    {"{{ c | length }}{{ c == k }}{{ 'A' in c }}", "6FalseTrue"},
    {"{{ c if c else k }}{{ none or c }}{{ c and k }}", "‹Ab <c>Ab <c>›k"},
    {"{{ nope | default(c) }}", "‹Ab <c>›"},
    {"{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(c) }}{{ m(k) }}", "[‹Ab <c>›][k]"},
    {"{% macro m() %}<{{ caller(c) }}>{% endmacro %}{% call(x) m() %}{{ x }}!{% endcall %}",
     "<‹Ab <c>›!>"},
    {"{% set b %}({{ c }}){% endset %}{{ b }}{{ b | upper }}", "(‹Ab <c>›)(‹AB <C>›)"},
    {"{% set ns = namespace(x=c) %}{{ ns.x }}{{ ns }}", "‹Ab <c>›<Namespace {'x': '‹Ab <c>›'}>"},
    {"{% filter upper %}k{{ c }}{% endfilter %}", "K‹AB <C>›"},
    {"{% generation %}{{ c }}{% endgeneration %}", "‹Ab <c>›"},
    {"{{ '[\"q\"]' | from_json | first }}{{ ('[\"' + k + c + '\"]') | from_json | first }}",
     "q‹kAb <c>›"},
    {"{{ [c, k] | map('upper') | join }}{{ [c, k] | sort | last }}", "‹AB <C>›Kk"},
    {"{{ c.partition(' ')[2] }}{{ c.removeprefix('A') }}{{ c.splitlines()[0] }}",
     "‹<c>b <c>Ab <c>›"},
    {"{{ k.ljust(3, c[0]) }}{{ c.rjust(8) }}", "k‹AA›  ‹Ab <c>›"},
    {"{{ strftime_now('%Y' + c) }}", "‹2025Ab <c>›"},
};

INSTANTIATE_TEST_SUITE_P(Operations, OperationTest, testing::ValuesIn(kOperations));

TEST(TaintTest, OtherVariablesOfTheCaller) {
  const auto parsed = ChatTemplate::parse("{{ tools[0].name }}{{ documents[0] }}{{ bos_token }}");
  const auto variables =
      parse_json(R"({"tools": [{"name": "t"}], "documents": ["d"], "bos_token": "<s>"})", "test");
  const auto rendered = parsed.value().render(variables.value(), kNow);
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(rendered.value().text, "td<s>");
  EXPECT_EQ(rendered.value().user_spans, (std::vector<TextSpan>{{0, 2}}));
}

}  // namespace
}  // namespace octavo::tokenizer
