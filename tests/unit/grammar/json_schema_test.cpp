// JSON schemas: random answers match them by an independent validator, texts that match are taken,
// texts that do not are not, and what is not supported is refused with its place.
#include <gtest/gtest.h>

#include "base/json.h"
#include "unit/grammar/grammar_walk.h"
#include "unit/grammar/schema_validator.h"

namespace octavo::grammar {
namespace {

struct SchemaSample {
  const char* schema;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
  std::vector<std::string> not_generated = {};  // though they match
};

const std::vector<SchemaSample> kSamples = {
    {"true", {"1", "\"a\"", "[null, {}]", "-0.5e10"}, {"", "nul", "1 2"}},
    {R"({"type":"string"})", {"\"\"", "\"a\\n\\u0041\xC3\xA9\""}, {"a", "\"", "1"}},
    {R"({"type":"string","minLength":2,"maxLength":3})",
     {"\"ab\"", "\"\xC3\xA9\xC3\xA9\xE2\x82\xAC\"", "\"\\ud83d\\ude00b\""},
     {"\"a\"", "\"abcd\"", "\"\xE2\x82\xAC\""}},
    {R"({"type":"string","maxLength":2500})",
     {"\"" + std::string(2500, 'x') + "\""},
     {"\"" + std::string(2501, 'x') + "\""}},
    {R"({"type":"string","minLength":40})",
     {"\"" + std::string(40, 'a') + "\""},
     {"\"" + std::string(39, 'a') + "\""}},
    {R"({"type":"string","pattern":"^[a-c]+\\d?\\.$"})",
     {"\"abc1.\"", "\"a.\""},
     {"\"d.\"", "\"a\""}},
    {R"({"type":"string","pattern":"x[\"\\\\y]\\w"})",
     {R"("x\"a")", R"("x\\_")", R"("xy0")"},
     {R"("x"a")", R"("x\a")"}},
    {R"({"type":"string","format":"date"})",
     {"\"2024-02-28\"", "\"1999-12-31\""},
     {"\"2024-02-30\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"24-01-01\""}},
    {R"({"type":"string","format":"date-time"})",
     {"\"2024-01-31T23:59:59.5+01:00\"", "\"2024-01-31T00:00:00Z\""},
     {"\"2024-01-31\"", "\"2024-01-31T24:00:00Z\"", "\"2024-01-31T00:00:00\""}},
    {R"({"type":"string","format":"uuid"})",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567\"", "\"123e4567-e89b-12d3-a456-42661417400g\""}},
    {R"({"type":"string","format":"ipv4"})", {"\"192.168.0.255\""}, {"\"256.1.1.1\"", "\"1.1.1\""}},
    {R"({"type":"integer"})", {"0", "-7", "123456789012345678"}, {"01", "1.5", "-", "+1"}, {"1e3"}},
    {R"({"type":"number"})", {"0", "-7.25", "1e10", "2.5E-3"}, {".5", "1.", "--1", "1e"}},
    {R"({"type":"integer","minimum":-12,"maximum":105})",
     {"-12", "-1", "0", "9", "10", "99", "100", "105"},
     {"-13", "106", "110", "1000", "-100"},
     {"-0"}},
    {R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":5.5})",
     {"4", "5"},
     {"3", "6", "45"}},
    {R"({"type":"integer","minimum":1000})", {"1000", "99999999"}, {"999", "-1000", "0"}},
    {R"({"type":"integer","maximum":-5})", {"-5", "-50"}, {"-4", "5", "0"}},
    {R"({"type":"integer","minimum":9007199254740993,"exclusiveMaximum":123456789012345679})",
     {"9007199254740993", "123456789012345678"},
     {"9007199254740992", "123456789012345679"}},
    {R"({"type":"integer","exclusiveMinimum":-9007199254740993,"maximum":0})",
     {"-9007199254740992", "0"},
     {"-9007199254740993", "1"}},
    {R"({"type":"number","minimum":0,"maximum":10})",
     {"0", "0.5", "9.99", "10"},
     {"-0.1", "10.5", "11"},
     {"1e1"}},
    {R"({"type":"number","minimum":-3,"maximum":-1})", {"-3", "-1", "-2.5"}, {"-0.5", "-3.5", "2"}},
    {R"({"type":"boolean"})", {"true", "false"}, {"1", "tru"}},
    {R"({"type":["null","integer"]})", {"null", "4"}, {"\"4\"", "4.5"}},
    {R"({"enum":["a","ab",1,null,{"x":[1]}]})",
     {"\"a\"", "\"ab\"", "1", "null", "{\"x\":[1]}"},
     {"\"b\"", "2"}},
    {R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"}},
    {R"({"const":"yes"})", {"\"yes\""}, {"\"no\""}},
    {R"({"type":"array"})", {"[]", "[1, \"a\", [2]]"}, {"[1,]", "[,1]", "{}"}},
    {R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3})",
     {"[true]", "[ true,false , true ]"},
     {"[]", "[true,true,true,true]", "[1]"}},
    {R"({"type":"array","items":{"type":"integer"},"minItems":300,"maxItems":300})", {}, {"[1,2]"}},
    {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
     {"[]", "[1]", "[1,\"a\"]"},
     {"[\"a\"]", "[1,\"a\",2]"}},
    {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],)"
     R"("items":{"type":"null"},"minItems":3,"maxItems":4})",
     {"[1,\"a\",null]", "[1,\"a\",null,null]"},
     {"[1,\"a\"]", "[1,\"a\",null,null,null]"}},
    {R"({"items":[{"type":"integer"}]})", {"[ -3000 ]", "[]"}, {"[\"a\"]"}, {"[1,2]"}},
    {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},)"
     R"("c":{"type":"null"}},"required":["b"]})",
     {R"({"b":""})", R"({"a": 1, "b": "x"})", "{\n  \"b\": \"x\",\n  \"c\": null\n}"},
     {"{}", R"({"a":1})", R"({"a":1,"b":2})", R"({"b":"",})", R"({,"b":""})"},
     {R"({"b":"","d":1})"}},
    {R"({"type":"object","properties":{}})", {"{}"}, {"[]"}, {"{\"a\":1}"}},
    {R"({"type":"object","additionalProperties":{"type":"integer"}})",
     {"{}", R"({"x":1,"\u0061":2})"},
     {R"({"x":""})"}},
    {R"({"type":"object","properties":{"name":{"type":"integer"},"na":{"type":"null"}},)"
     R"("additionalProperties":{"type":"boolean"},"required":["name","other"]})",
     {R"({"name":1,"other":true})",
      R"({"name":1,"na":null,"other":true,"nam":false,"names":true,"":true,"x":true})"},
     {R"({"name":true})", R"({"name":1})", R"({"name":1,"other":true,"name":true})",
      R"({"name":1,"other":true,"n\u0061":true})"}},
    {R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["z"]})",
     {R"({"a":1,"z":[2]})"},
     {R"({"a":1})"}},
    {R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"const":1}},)"
     R"("required":["a"]}],"title":"t"})",
     {"5", "{\"a\":1}"},
     {"{}", "\"5\""}},
    {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"5", "\"\""}, {"null"}},
    {R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},)"
     R"("v":{"type":"integer"}},"required":["kind"]},
                    {"type":"object","properties":{"kind":{"enum":["b","c"]}},
                     "required":["kind"]}]})",
     {R"({"kind":"a","v":1})", R"({"kind":"c"})"},
     {"{}", R"({"kind":"d"})"},
     {R"({"kind":"b","v":1})"}},
    {R"({"allOf":[{"$ref":"#/$defs/a"},{"properties":{"y":{"type":"string"}},)"
     R"("required":["y"]}],
           "$defs":{"a":{"type":"object","properties":{"x":{"type":"integer"}},
           "required":["x"]}}})",
     {R"({"x":1,"y":""})"},
     {R"({"x":1})", R"({"y":""})"}},
    {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object",)"
     R"("properties":{"v":{"type":"integer"},
           "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}})",
     {R"({"v":1,"next":{"v":2,"next":null}})"},
     {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
    {R"({"type":"object","properties":{"next":{"allOf":[{"$ref":"#"}],"description":"d"}}})",
     {"{}", R"({"next":{"next":{}}})"},
     {R"({"next":1})", R"({"next":{"next":null}})"}},
    {R"({"$id":"http://x/y","allOf":[{"type":"object"},{"title":"a"}],"title":"b",)"
     R"("properties":{"$id":{"const":"c"}},"required":["$id"]})",
     {R"({"$id":"c"})"},
     {"{}"}},
    {R"({"allOf":[{"prefixItems":[{"type":"integer"}],"items":{"type":"null"}},{"minItems":2}]})",
     {"[1,null]"},
     {"[1]", "[1,2]", "[null,null]"}},
    {R"({"oneOf":[{"const":1},{"const":2.5},{"const":[1]},{"const":[1,2]},{"const":{"a":1}}]})",
     {"1", "[1,2]", "{\"a\":1}"},
     {"2", "[2]"}},
    {R"({"type":"array","items":{"$ref":"#"},"maxItems":2})",
     {"[]", "[[],[[]]]"},
     {"[1]", "[[],[],[]]"}},
    {R"({"definitions":{"a/b~c":{"type":"null"}},"$ref":"#/definitions/a~1b~0c"})",
     {"null"},
     {"1"}},
};

// What the validator says of a text that is JSON.
bool is_valid(const Json& schema, const std::string& text) {
  const auto value = parse_json(text, "text");
  return value.ok() && testing::SchemaValidator(schema).matches(*value);
}

TEST(JsonSchema, TakesWhatMatches) {
  for (const SchemaSample& sample : kSamples) {
    const GrammarWalk walk(GrammarWalk::json(sample.schema));
    for (const auto& text : sample.accepted) {
      EXPECT_TRUE(walk.accepts(text)) << sample.schema << "\n" << text;
    }
    for (const auto& text : sample.refused) {
      EXPECT_FALSE(walk.accepts(text)) << sample.schema << "\n" << text;
    }
    for (const auto& text : sample.not_generated) {
      EXPECT_FALSE(walk.accepts(text)) << sample.schema << "\n" << text;
    }
  }
}

TEST(JsonSchema, RandomAnswersMatch) {
  Rng rng(7);
  for (const SchemaSample& sample : kSamples) {
    // The validator knows pointers without escapes and no formats.
    if (std::string_view(sample.schema).find("a/b~c") != std::string_view::npos) continue;
    const Json schema = parse_json(sample.schema, "schema").value();
    const GrammarWalk walk(GrammarWalk::json(sample.schema));
    for (int i = 0; i < 12; ++i) {
      const std::string text = walk.random_text(rng);
      EXPECT_TRUE(is_valid(schema, text)) << sample.schema << "\n" << text;
    }
  }
}

// So that the oracle is no rubber stamp: it tells the samples apart as the grammar does.
TEST(JsonSchema, ValidatorAgreesOnSamples) {
  for (const SchemaSample& sample : kSamples) {
    const std::string_view text = sample.schema;
    // The validator knows pointers without escapes and no formats.
    if (text.find("a/b~c") != std::string_view::npos) continue;
    const Json schema = parse_json(text, "schema").value();
    for (const auto& good : sample.accepted) EXPECT_TRUE(is_valid(schema, good)) << text << good;
    for (const auto& left : sample.not_generated)
      EXPECT_TRUE(is_valid(schema, left)) << text << left;
    if (text.find("format") != std::string_view::npos) continue;
    for (const auto& bad : sample.refused) EXPECT_FALSE(is_valid(schema, bad)) << text << bad;
  }
  const Json schema =
      parse_json(R"({"type":"object","properties":{"a":{"pattern":"^x+$"}}})", "").value();
  EXPECT_FALSE(is_valid(schema, R"({"a":"xy"})"));
  EXPECT_TRUE(is_valid(schema, R"({"a":"xx"})"));
}

const struct {
  const char* schema;
  const char* message;
} kUnsupported[] = {
    {"", "the schema"},
    {"[]", "#: a schema must be an object"},
    {"false", "#: false allows no value"},
    {R"({"type":"strin"})", "#: type is not one"},
    {R"({"type":[]})", "#: type is empty"},
    {R"({"not":{}})", "#: the keyword not is not supported"},
    {R"({"properties":{"a":{"items":{"uniqueItems":true}}}})",
     "#/properties/a/items: the keyword uniqueItems"},
    {R"({"properties":{"a/b":{"if":true}}})", "#/properties/a~1b: the keyword if"},
    {R"({"patternProperties":{}})", "patternProperties"},
    {R"({"type":"object","minProperties":1})", "minProperties"},
    {R"({"type":"integer","multipleOf":2})", "multipleOf"},
    {R"({"type":"number","minimum":0.5})", "minimum of a number is supported for whole"},
    {R"({"type":"number","exclusiveMinimum":0})", "exclusiveMinimum of a number"},
    {R"({"type":"integer","minimum":5,"maximum":4})", "leave no number"},
    {R"({"type":"integer","minimum":1e30})", "leave no number"},
    {R"({"type":"integer","minimum":"1"})", "minimum must be a number"},
    {R"({"type":"string","format":"email"})", "the format email is not supported"},
    {R"j({"type":"string","pattern":"(?=a)"})j", "#: pattern: position"},
    {R"({"type":"string","pattern":"a","maxLength":2})", "together are not supported"},
    {R"({"type":"string","minLength":3,"maxLength":2})", "maxLength is below minLength"},
    {R"({"type":"string","minLength":-1})", "minLength must be a whole number"},
    {R"({"type":"string","minLength":1e12})", "minLength is too large"},
    {R"({"type":"array","minItems":2,"items":false})", "minItems is more than items allow"},
    {R"({"type":"array","prefixItems":[{}],"items":[{}]})", "items must be a schema"},
    {R"({"enum":[]})", "enum allows no value"},
    {R"({"enum":[1],"type":"string"})", "enum allows no value"},
    {R"({"enum":["a"],"minLength":1})", "minLength beside enum"},
    {R"({"anyOf":[]})", "anyOf must be an array that is not empty"},
    {R"({"anyOf":[{}],"properties":{}})", "properties beside anyOf"},
    {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "both 0 and 1"},
    {R"({"oneOf":[{"properties":{}},{"type":"string"}]})", "both 0 and 1"},
    {R"({"oneOf":[{"enum":[1,2]},{"enum":[2,3]}]})", "both 0 and 1"},
    {R"({"oneOf":[{"const":1},{"const":1.0}]})", "both 0 and 1"},
    {R"({"oneOf":[{"const":{"a":[1]}},{"const":{"a":[1.0]}}]})", "both 0 and 1"},
    {R"({"const":1e400})", "const has a number too large"},
    {R"({"enum":[1,{"a":[-1e400]}]})", "enum has a number too large"},
    {R"({"properties":{"a":{"$id":"http://x/y"}}})", "#/properties/a: $id is supported at"},
    {R"({"allOf":[{"$id":"http://x/y"},{"type":"object"}]})", "$id is supported at"},
    {R"({"$ref":"#/$defs/a/items","$defs":{"a":{"$id":"b","items":true}}})", "$id is supported"},
    {R"({"allOf":[{"items":{"type":"null"}},{"prefixItems":[{"type":"integer"}]}]})",
     "items and prefixItems in different parts"},
    {R"({"prefixItems":[true],"items":true,"allOf":[{"prefixItems":[true]},{"minItems":1}]})",
     "items and prefixItems in different parts"},
    {R"({"$ref":"#/$defs/x"})", "$ref '#/$defs/x' names nothing"},
    {R"({"$ref":"http://x/y"})", "must begin with #/"},
    {R"({"$ref":"#"})", "no text can match"},
    {R"({"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},)"
     R"({"type":"null"}]},"b":{"$ref":"#/$defs/a"}}})",
     "begins with itself"},
    {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "no text can match"},
    {R"({"$ref":"#/$defs/a","minimum":1,"$defs":{"a":{}}})", "minimum beside $ref"},
    {R"({"type":"object","required":["a"],"additionalProperties":false})",
     "additionalProperties forbids a"},
    {R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"required":["a"]}]})",
     "additionalProperties within allOf"},
    {R"({"allOf":[{"minLength":1},{"minLength":2}]})", "more than one minLength"},
    {R"({"allOf":[{"required":"a"},{"required":["b"]}]})", "required must be an array"},
    {R"({"allOf":[{"properties":1},{"properties":{}}]})", "properties must be an object"},
    {R"({"allOf":[{"type":"object"},{"type":"string"}]})", "more than one type"},
    {R"({"allOf":3})", "allOf must be an array"},
    {R"({"$ref":3})", "$ref must be a string"},
    {R"({"allOf":[{"$ref":"#"}]})", "no text can match"},
    {R"({"allOf":[{"$ref":"#"},{"type":"object"}]})", "allOf is nested too deeply"},
};

TEST(JsonSchema, NamesWhatIsNotSupported) {
  for (const auto& [schema, message] : kUnsupported) {
    const Status status = GrammarWalk::status_of(GrammarWalk::json(schema));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << schema;
    EXPECT_NE(status.message().find(message), std::string::npos) << schema << "\n"
                                                                 << status.message();
  }
}

TEST(JsonSchema, LargeSchemasCompile) {
  std::string properties;
  std::string required;
  for (int i = 0; i < 500; ++i) {
    properties += R"(,"p)" + std::to_string(i) + R"(":{"type":"string","maxLength":2000})";
    required += R"(,"p)" + std::to_string(i) + "\"";
  }
  const std::string schema = R"({"type":"object","properties":{)" + properties.substr(1) + "}";
  EXPECT_EQ(GrammarWalk::status_of(GrammarWalk::json(schema + "}")).message(), "");
  EXPECT_TRUE(GrammarWalk(GrammarWalk::json(schema + "}")).accepts(R"({"p3":"", "p499":"x"})"));
  EXPECT_FALSE(
      GrammarWalk(GrammarWalk::json(schema + R"(,"required":[)" + required.substr(1) + "]}"))
          .accepts("{}"));
  std::string values;
  for (int i = 0; i < 5000; ++i) values += ",\"value" + std::to_string(i) + "\"";
  const GrammarWalk walk(GrammarWalk::json("{\"enum\":[" + values.substr(1) + "]}"));
  EXPECT_TRUE(walk.accepts("\"value4999\""));
  EXPECT_FALSE(walk.accepts("\"value5000\""));
}

std::string message_of(const std::string& schema) {
  return GrammarWalk::status_of(GrammarWalk::json(schema)).message();
}

std::string nested(const std::string& begin, const std::string& end, int depth) {
  std::string text = "true";
  for (int i = 0; i < depth; ++i) text = begin + text + end;
  return text;
}

// Each of these would take time or memory without an end if it were followed.
TEST(JsonSchema, BoundsHostileSchemas) {
  EXPECT_EQ(message_of(nested(R"({"required":["a"],"additionalProperties":)", "}", 100)), "");
  EXPECT_EQ(message_of(nested(R"({"type":["object","object"],"properties":{"a":)", "}}", 50)), "");
  std::string names;
  for (int i = 0; i < 10; ++i) names += ",\"p" + std::to_string(i) + "\"";
  const auto all_properties = [&](const std::string& schema) {
    std::string text = R"({"type":"object","properties":{)";
    for (int i = 0; i < 10; ++i) {
      text += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + "\":" + schema;
    }
    return text + R"(},"required":[)" + names.substr(1) + "]}";
  };
  const std::string a = all_properties(R"({"$ref":"#/$defs/a"})");
  const std::string b = all_properties(R"({"$ref":"#/$defs/b"})");
  const std::string defs = R"("$defs":{"a":)" + a + R"(,"b":)" + b + "}}";
  EXPECT_NE(
      message_of(R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],)" + defs).find("oneOf"),
      std::string::npos);
  EXPECT_NE(message_of(R"({"$ref":"#/$defs/c","$defs":{"c":{"properties":{"x":{"allOf":[)"
                       R"({"$ref":"#/$defs/c"},{"type":"object"}]}}}}})")
                .find("nested too deeply"),
            std::string::npos);
  std::string values;
  for (int i = 0; i < 20000; ++i) values += ",\"value" + std::to_string(i) + "\"";
  EXPECT_NE(message_of(R"({"$ref":"#/$defs/c","$defs":{"c":{"properties":{"x":{"allOf":[)"
                       R"({"$ref":"#/$defs/c"},{"type":"object"}]},"y":{"enum":[)" +
                       values.substr(1) + "]}}}}}")
                .find("the parts of allOf are too large"),
            std::string::npos);
}

TEST(JsonSchema, BoundsLongNames) {
  const std::string name(200'000, 'n');
  const std::string unknown = message_of(R"({"properties":{")" + name + R"(":{"not":{}}}})");
  EXPECT_NE(unknown.find("/nnn"), std::string::npos);
  EXPECT_LT(unknown.size(), 300U);
  EXPECT_NE(message_of(R"({"properties":{")" + name + R"(":true},"additionalProperties":true})")
                .find("the names beside additionalProperties"),
            std::string::npos);
  std::string deep = R"({"$ref":"#/$defs/)" + name + R"(","$defs":{")" + name + R"(":{"items":)";
  for (int i = 0; i < 50; ++i) deep += R"({"prefixItems":[true],"items":)";
  EXPECT_EQ(message_of(deep + "true" + std::string(53, '}')), "");
}

}  // namespace
}  // namespace octavo::grammar
