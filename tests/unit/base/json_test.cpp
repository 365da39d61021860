// What base/json.h adds to Boost: exact numbers, errors with a place, output that is always valid.
#include "base/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>

#include "base/rng.h"

namespace octavo {
namespace {

Json parsed(const std::string& text) {
  auto value = parse_json(text, "text");
  EXPECT_TRUE(value.ok()) << value.status().message();
  return value.ok() ? std::move(*value) : Json();
}

std::string error_of(const std::string& text) {
  const auto value = parse_json(text, "file.json");
  return value.ok() ? "" : value.status().message();
}

std::string shortest(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr};
}

TEST(Json, DoublesAreReadExactly) {
  EXPECT_EQ(parsed("0.30000000000000004").as_double(), 0.1 + 0.2);
  EXPECT_EQ(parsed("100e61").as_double(), 1e63);
  EXPECT_EQ(parsed("-4.9e-324").as_double(), -4.9e-324);
  EXPECT_EQ(parsed("1.7976931348623157e308").as_double(), 1.7976931348623157e308);
  Rng rng(1);
  for (int i = 0; i < 100000; ++i) {
    const auto value = std::bit_cast<double>(rng.next_u64());
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(parsed(shortest(value)).as_double(), value) << shortest(value);
  }
}

TEST(Json, EveryKindSurvives) {
  const std::string text =
      R"({"z":[null,true,false,[],{}],"a":[0,-1,9223372036854775807,18446744073709551615],)"
      R"("b":[0.1,0.30000000000000004,-2.5e-08,1e+22],"s":"a\"\\\n\u0001é😀"})";
  EXPECT_EQ(dump_json(parsed(text)), text);
  EXPECT_EQ(parsed(" [1 , 2.0]\n").as_array().at(1).as_double(), 2.0);
  EXPECT_EQ(dump_json(parsed("[[1,{\"a\":[]}]]"), 2),
            "[\n  [\n    1,\n    {\n      \"a\": []\n    }\n  ]\n]");
}

TEST(Json, NumbersNextToEachOtherDoNotMix) {
  EXPECT_EQ(dump_json(parsed("[1,2.5,3,4e0,5,18446744073709551616,6.25]")),
            "[1,2.5,3,4.0,5,18446744073709551616.0,6.25]");
}

TEST(Json, ErrorsNameSourceAndPlace) {
  EXPECT_EQ(error_of("[1,2"), "file.json: not valid JSON near byte 4: incomplete JSON");
  EXPECT_EQ(error_of("{\"a\":tru}"), "file.json: not valid JSON near byte 5: syntax error");
  EXPECT_EQ(error_of("[] x"), "file.json: not valid JSON: text after the document at byte 3");
  for (const char* text : {"", "nul", "01", "+1", "1.", "'a'", "[1,]", "{1:2}", "\"\xff\"",
                           "\"\t\"", "NaN", "1e", "[1 2]", "\"\\ud800\""}) {
    EXPECT_NE(error_of(text), "") << text;
  }
}

TEST(Json, NestingIsBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(error_of(nested(128)), "");
  EXPECT_NE(error_of(nested(129)), "");
  EXPECT_NE(error_of(std::string(1000000, '[')), "");
}

TEST(Json, OutputIsValidWhateverItHolds) {
  EXPECT_EQ(dump_json(Json("a\xff\xe2\x82")), "\"a\uFFFD\uFFFD\"");
  EXPECT_EQ(dump_json(Json(HUGE_VAL)), "null");
  EXPECT_EQ(dump_json(Json(NAN)), "null");
}

TEST(Json, FieldsAreChecked) {
  const Json object = parsed(R"({"i":3,"d":2.5,"big":18446744073709551615,"s":"x","n":null})");
  EXPECT_EQ(json_int(object, "i", "f").value(), 3);
  EXPECT_EQ(json_double(object, "i", "f").value(), 3.0);
  EXPECT_EQ(json_int(object, "d", "f").status().message(), "f: 'd' must be an integer");
  EXPECT_EQ(json_int(object, "big", "f").status().message(),
            "f: 'big' must be an integer below 2^63");
  EXPECT_EQ(json_string(object, "gone", "f").status().message(), "f: 'gone' is missing");
  EXPECT_EQ(json_string(object, "n", "f").status().message(), "f: 'n' is missing");
  EXPECT_EQ(json_bool(object, "s", "f").status().message(), "f: 's' must be true or false");
  EXPECT_EQ(json_find(Json(3), "a"), nullptr);
}

}  // namespace
}  // namespace octavo
