// Templates that ask for too much end with an error, soon, and errors say where they are.
#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "jinja_test_util.h"

namespace octavo::tokenizer {
namespace {

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

Result<RenderedPrompt> render(const std::string& source, const Json& variables = JsonObject()) {
  auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed.value().render(variables, kNow);
}

std::string message_of(const std::string& source) {
  const auto rendered = render(source);
  return rendered.ok() ? "rendered: " + rendered.value().text : rendered.status().message();
}

// Sanitizers slow everything down.
constexpr double kSoonSeconds = 15;

void expect_refused(const std::string& source) {
  const double start = now_seconds();
  const auto rendered = render(source);
  EXPECT_FALSE(rendered.ok()) << source.substr(0, 100);
  EXPECT_LT(now_seconds() - start, kSoonSeconds) << source.substr(0, 100);
}

TEST(LimitsTest, DeepTemplatesAreRefused) {
  for (const size_t depth : {300, 100'000}) {
    expect_refused("{{ " + repeated("(", depth));
    expect_refused("{{ " + repeated("(", depth) + "1" + repeated(")", depth) + " }}");
    expect_refused("{{ " + repeated("[", depth) + repeated("]", depth) + " }}");
    expect_refused("{{ " + repeated("{1:", depth) + "1" + repeated("}", depth) + " }}");
    expect_refused("{{ " + repeated("not ", depth) + "1 }}");
    expect_refused("{{ " + repeated("-", depth) + "1 }}");
    expect_refused("{{ 1" + repeated(" + 1", depth) + " }}");
    expect_refused("{{ 1" + repeated(" and 1", depth) + " }}");
    expect_refused("{{ 1" + repeated(" if 1 else 1", depth) + " }}");
    expect_refused("{{ x" + repeated(".a", depth) + " }}");
    expect_refused("{{ x" + repeated("[x", depth) + repeated("]", depth) + " }}");
    expect_refused("{{ x" + repeated("(x", depth) + repeated(")", depth) + " }}");
    expect_refused("{{ x" + repeated("|e", depth) + " }}");
    expect_refused("{{ x" + repeated(" is odd", depth) + " }}");
    expect_refused(repeated("{% if 1 %}", depth) + repeated("{% endif %}", depth));
    expect_refused(repeated("{% for x in y %}", depth) + repeated("{% endfor %}", depth));
    expect_refused(repeated("{% macro m() %}", depth) + repeated("{% endmacro %}", depth));
  }
  EXPECT_TRUE(render("{{ " + repeated("(", 90) + "1" + repeated(")", 90) + " }}").ok());
  EXPECT_TRUE(render("{{ 1" + repeated(" + 1", 150) + " }}").ok());
  EXPECT_TRUE(render(repeated("{% if 1 %}", 150) + repeated("{% endif %}", 150)).ok());
}

TEST(LimitsTest, DeepRenderingIsRefused) {
  expect_refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  expect_refused("{% macro f(x) %}{{ [[[[f(x)]]]] }}{% endmacro %}{{ f(1) }}");
  expect_refused(
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}"
      "{{ a() }}");
  expect_refused("{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}");
  expect_refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  expect_refused(
      "{% set ns = namespace(x=1) %}{% for i in range(300) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}");
  expect_refused("{{ 'a' | map(*(['map'] * 100000)) | list }}");
  EXPECT_EQ(message_of("{{ ['a'] | map('map', 'upper') | map('list') | list }}"),
            "rendered: [['A']]");
  const std::string count_down =
      "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% else %}end{% endif %}{% endmacro %}";
  EXPECT_EQ(message_of(count_down + "{{ f(150) }}"), "rendered: end");
}

TEST(LimitsTest, LongRenderingIsRefused) {
  const std::string loops = "{% for a in range(100000) %}{% for b in range(100000) %}";
  const std::string ends = "{% endfor %}{% endfor %}";
  expect_refused(loops + ends);
  expect_refused(loops + "{{ a }}" + ends);
  expect_refused(loops + "{{ [a] * 10000 }}" + ends);
  expect_refused(loops + "{% set x = range(100000) | list %}" + ends);
  expect_refused(loops + "{{ 'x' * 1000000 == 'x' * 999999 ~ 'y' }}" + ends);
  const std::string alike = "{% set x = 'x' * 1000000 %}{% set y = x ~ 'y' %}";
  for (const char* use : {"{% if x < y %}{% endif %}", "{% if x is lt y %}{% endif %}",
                          "{% if x is ge(y) %}{% endif %}", "{% set z = [x, y] | max %}"}) {
    expect_refused(alike + loops + use + ends);
  }
  expect_refused("{% set ns = namespace(x='ab') %}" + loops + "{% set ns.x = ns.x ~ ns.x %}" +
                 ends);
  expect_refused("{% set ns = namespace(x=[1]) %}" + loops + "{% set ns.x = ns.x + ns.x %}" + ends);
  expect_refused("{% set ns = namespace(x=[1]) %}" + loops + "{% set ns.x = [ns.x, ns.x] %}" +
                 ends);
  expect_refused("{% set x = 'a' * 10000000 %}" + loops + "{{ x.replace('a', x) }}" + ends);
  expect_refused("{% set x = 'a' * 10000000 %}" + loops + "{{ x.strip(x) | length }}" + ends);
  expect_refused("{% set x = ['a' * 1000000] * 1000 %}{{ x | join }}");
  expect_refused("{% set x = 'a,' * 30000000 %}{{ x.split(',') | length }}");
}

TEST(LimitsTest, SharedPartsDoNotExplode) {
  // 2^n elements from n steps: writing, comparing and hashing must not walk them all.
  const std::string twice =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}"
      "{% endfor %}";
  for (const char* use : {"{{ ns.x }}", "{{ ns.x == ns.y }}", "{{ ns.x | tojson }}"}) {
    expect_refused(twice + use);
  }
  EXPECT_EQ(message_of("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}"),
            "rendered: <Namespace {'self': <Namespace ...>}>");
}

TEST(LimitsTest, LargeResultsAreRefused) {
  for (const char* source : {
           "{{ 'x' * 100000000 }}",
           "{{ [1] * 100000000 }}",
           "{{ range(100001) }}",
           "{{ range(0, 9223372036854775807, 1) }}",
           "{{ 'x'.ljust(100000000) }}",
           "{{ 'x'.zfill(100000000) }}",
           "{{ 'x' | center(100000000) }}",
           "{{ '%100000000d' % 1 }}",
           "{{ '%.100000000f' % 1 }}",
           "{{ '{:100000000}'.format(1) }}",
           "{{ [1, [2]] | tojson(indent=100000000) }}",
           "{{ 'a\nb' | indent(100000000) }}",
           "{{ [1] | batch(100000000, 0) | list }}",
           "{{ [1] | slice(100000000) | list }}",
           "{{ 2 ** 100 }}",
           "{{ 9223372036854775807 + 1 }}",
           "{{ -9223372036854775807 - 2 }}",
           "{{ 9223372036854775807 * 2 }}",
           "{{ strftime_now('%c' * 1000) }}",
           "{{ range(0, 9000000000000000000, 4000000000000000000)[:2:3] }}",
           "{{ range(0, 9000000000000000000, 4000000000000000000)[:] }}",
       }) {
    expect_refused(source);
  }
  const std::string megabyte = "{% set x = 'y' * 1000000 %}";
  expect_refused(megabyte + "{% for i in range(70) %}{{ x }}{% endfor %}");
  EXPECT_TRUE(render(megabyte + "{% for i in range(60) %}{{ x }}{% endfor %}").ok());
}

TEST(LimitsTest, TheLeastIntegerIsANumberLikeOthers) {
  const std::string least = "(-9223372036854775807 - 1)";
  EXPECT_EQ(message_of("{{ [1, 2] | batch(" + least + ", 0) | list }}"), "rendered: [[1, 2]]");
  EXPECT_EQ(message_of("{{ 'ab' | center(" + least + ") }}"), "rendered: ab");
  for (const char* method : {"ljust", "rjust", "center", "zfill"}) {
    EXPECT_EQ(message_of("{{ 'ab'." + std::string(method) + "(" + least + ") }}"), "rendered: ab");
  }
}

// Keys that differ in their upper bits, or in nothing but being other objects.
TEST(LimitsTest, ManyKeysAreFoundSoon) {
  for (const auto& [source, count] : {
           std::pair("{{ range(0, 429496729600000, 4294967296) | unique | list | length }}",
                     "100000"),
           std::pair("{{ ([{}] * 100000) | map('items') | unique | list | length }}", "100000"),
       }) {
    const double start = now_seconds();
    EXPECT_EQ(message_of(source), "rendered: " + std::string(count)) << source;
    EXPECT_LT(now_seconds() - start, kSoonSeconds) << source;
  }
}

TEST(LimitsTest, DeepInputIsRefused) {
  Json deep;
  for (int i = 0; i < 300; ++i) deep = JsonArray{std::move(deep)};
  EXPECT_FALSE(render("{{ messages }}", JsonObject{{"messages", deep}}).ok());
}

TEST(ErrorsTest, SayWhereTheyAre) {
  EXPECT_EQ(message_of("a\n  {{ b c }}"), "chat template:2:8: expected '}}', got 'c'");
  EXPECT_EQ(message_of("é{{ (1 }}"), "chat template:1:8: unexpected '}', expected ')'");
  EXPECT_EQ(message_of("x\r\ny {% nope %}"), "chat template:2:6: the tag 'nope' is not known here");
  EXPECT_EQ(message_of("{% if a %}\n{{ 1"), "chat template:2:1: a tag has no end");
  EXPECT_EQ(message_of("\n{% for x in y %}"), "chat template:2:15: this block has no 'endfor'");
  EXPECT_EQ(message_of("\n\n{{ 1 + foo.bar }}"), "chat template:3:11: 'foo' is undefined");
  EXPECT_EQ(message_of("{% macro m() %}\n{{ 'a' + 1 }}{% endmacro %}\n{{ m() }}"),
            "chat template:2:8: '+' cannot be applied to 'str' and 'int'");
  EXPECT_EQ(message_of("{{ {}.a.b }}"), "chat template:1:8: 'dict object' has no attribute 'a'");
  EXPECT_EQ(message_of("{{ [1].append(2) }}"),
            "chat template:1:14: the method 'append' of 'list' is not allowed: templates cannot "
            "change values");
  EXPECT_EQ(message_of("{{ raise_exception('Only  \"user\"!') }}"), "Only  \"user\"!");
}

TEST(ChatTemplateTest, VariablesMayBeAnything) {
  EXPECT_EQ(render("{{ messages }}|", Json(5)).value().text, "|");
  EXPECT_EQ(render("{{ messages }}", JsonObject{{"messages", nullptr}}).value().text, "None");
  EXPECT_EQ(render("", JsonObject()).value().text, "");
  EXPECT_EQ(render("{{ range }}", JsonObject{{"range", 1}}).value().text, "1");
}

TEST(ChatTemplateTest, InvalidUtf8IsReplaced) {
  EXPECT_EQ(render("a\xFFz{{ '\xC3' }}").value().text, "a\uFFFDz\uFFFD");
  const Json variables = JsonObject{{"messages", "\xC3\xA9\xFF\xE2\x82"}};
  EXPECT_EQ(render("{{ messages | length }}", variables).value().text, "3");
  EXPECT_EQ(render("{{ messages[::-1] | upper }}", variables).value().text, "\xE2\x82\xFF\xC3\x89");
}

TEST(ChatTemplateTest, RendersFromManyThreads) {
  const auto parsed = ChatTemplate::parse(read_template("openai-gpt-oss-120b"));
  ASSERT_TRUE(parsed.ok());
  const Json conversations = read_json("conversations.json");
  const Json& variables = conversations.at("calls without content");
  const std::string expected = parsed.value().render(variables, kNow).value().text;
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) text = parsed.value().render(variables, kNow).value().text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace octavo::tokenizer
