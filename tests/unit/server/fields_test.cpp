#include "server/openai/fields.h"

#include <gtest/gtest.h>

#include "server/openai/error.h"
#include "server/openai/sampling_fields.h"
#include "server/routes.h"

namespace octavo::server {
namespace {

JsonObject object(const char* text) {
  auto body = parse_body(text);
  EXPECT_TRUE(body.ok()) << text;
  return *body;
}

GenerationOptions read(const JsonObject& body, Status& status,
                       const ServerConfig& config = ServerConfig()) {
  Fields fields(body);
  GenerationOptions options = read_generation_options(fields, config);
  status = fields.status();
  return options;
}

TEST(Fields, FirstErrorNamesTheField) {
  const JsonObject body = object(R"({"a": 1.5, "b": "x", "c": 3000000000})");
  Fields fields(body, "outer.");
  int64_t whole = 7;
  bool flag = true;
  fields.read("a", whole);
  fields.read("b", flag);
  EXPECT_EQ(whole, 7);
  EXPECT_NE(fields.status().message().find("outer.a"), std::string::npos);
  Fields narrow(body);
  int32_t number = 7;
  narrow.read("c", number);
  EXPECT_FALSE(narrow.status().ok());
  EXPECT_EQ(number, 7);
}

TEST(Fields, NullIsNotGiven) {
  const JsonObject body = object(R"({"a": null, "b": 2.0})");
  Fields fields(body);
  std::optional<int64_t> a;
  std::optional<int64_t> b;
  fields.read("a", a);
  fields.read("b", b);
  EXPECT_FALSE(a.has_value());
  EXPECT_EQ(b, 2);
  EXPECT_TRUE(fields.finish().ok());
}

TEST(Fields, BodiesMustBeObjects) {
  for (const char* text : {"", "[]", "1", "{}{}", "{\"a\":}"}) {
    EXPECT_FALSE(parse_body(text).ok()) << text;
  }
}

TEST(SamplingFields, AllReachTheRequest) {
  Status status;
  const GenerationOptions options =
      read(object(R"({"temperature": 0.5, "top_p": 0.25, "top_k": 3, "min_p": 0.125, "seed": -2,
                      "repetition_penalty": 1.5, "presence_penalty": 0.5, "frequency_penalty": -1,
                      "logit_bias": {"5": 200, "6": -1.5}, "bad_words": ["w"], "stop": "s",
                      "allowed_token_ids": [1, 2], "stop_token_ids": [3], "ignore_eos": true,
                      "min_tokens": 4, "prompt_logprobs": 2, "n": 3, "priority": -5,
                      "cache_salt": "c", "skip_special_tokens": false, "request_id": "r",
                      "truncate_prompt_tokens": 9, "return_token_ids": true,
                      "response_format": {"type": "text"}})"),
           status);
  ASSERT_TRUE(status.ok()) << status.message();
  const SamplingParams& params = options.request.sampling;
  EXPECT_EQ(params.temperature, 0.5f);
  EXPECT_EQ(params.top_p, 0.25f);
  EXPECT_EQ(params.top_k, 3);
  EXPECT_EQ(params.min_p, 0.125f);
  EXPECT_EQ(params.seed, ~uint64_t{1});
  EXPECT_EQ(params.repetition_penalty, 1.5f);
  EXPECT_EQ(params.presence_penalty, 0.5f);
  EXPECT_EQ(params.frequency_penalty, -1.0f);
  ASSERT_EQ(params.logit_bias.size(), 2U);
  EXPECT_EQ(params.logit_bias[0].bias, 100.0f);
  EXPECT_EQ(params.logit_bias[1].token_id, 6);
  EXPECT_EQ(params.bad_words, std::vector<std::string>{"w"});
  EXPECT_EQ(params.stop, std::vector<std::string>{"s"});
  EXPECT_EQ(params.allowed_token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(params.stop_token_ids, std::vector<TokenId>{3});
  EXPECT_TRUE(params.ignore_eos);
  EXPECT_EQ(params.min_tokens, 4);
  EXPECT_EQ(params.prompt_logprobs, 2);
  EXPECT_EQ(options.request.n, 3);
  EXPECT_EQ(options.request.priority, -5);
  EXPECT_EQ(options.request.cache_salt, "c");
  EXPECT_TRUE(options.request.show_special_tokens);
  EXPECT_EQ(options.request_id, "r");
  EXPECT_EQ(options.truncate_prompt_tokens, 9);
  EXPECT_TRUE(options.return_token_ids);
}

TEST(SamplingFields, ASeedOfMinusOneIsARandomOne) {
  Status status;
  EXPECT_FALSE(read(object(R"({"seed": -1})"), status).request.sampling.seed.has_value());
  EXPECT_EQ(read(object(R"({"seed": 0})"), status).request.sampling.seed, 0U);
}

TEST(SamplingFields, DefaultsOfTheModelGiveWayToTheRequest) {
  ServerConfig config;
  config.default_sampling = object(R"({"temperature": 0.5, "top_k": 7, "bos_token_id": 1})");
  Status status;
  const GenerationOptions options = read(object(R"({"top_k": 2})"), status, config);
  EXPECT_EQ(options.request.sampling.temperature, 0.5f);
  EXPECT_EQ(options.request.sampling.top_k, 2);
}

TEST(SamplingFields, WhatIsOffIsAcceptedWhatIsAskedForRefused) {
  for (const char* name :
       {"use_beam_search", "vllm_xargs", "thinking_token_budget", "kv_transfer_params"}) {
    for (const Json& off : {Json(), Json(false), Json(""), Json(JsonObject())}) {
      Status status;
      read(JsonObject{{name, off}}, status);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    for (const Json& on : {Json(true), Json("x"), Json(JsonObject{{"a", 1}}), Json(1)}) {
      Status status;
      read(JsonObject{{name, on}}, status);
      EXPECT_EQ(status.code(), StatusCode::kUnsupported);
      EXPECT_NE(status.message().find(name), std::string::npos);
      EXPECT_EQ(error_response(status).status, 400);
    }
  }
}

TEST(Errors, HaveTheFormOfVllm) {
  const HttpResponse full = error_response(resource_exhausted("full"));
  EXPECT_EQ(full.status, 503);
  EXPECT_NE(find_header(full.headers, "retry-after"), nullptr);
  EXPECT_EQ(full.body, R"({"error":{"message":"full","type":"ServiceUnavailableError",)"
                       R"("param":null,"code":503}})");
  EXPECT_EQ(error_response(not_found("m")).status, 404);
  EXPECT_EQ(find_header(error_response(not_found("m")).headers, "retry-after"), nullptr);
}

TEST(Errors, NameAFieldOfTheRequest) {
  const JsonObject body = object(R"({"n": 0, "messages": [], "model": "m"})");
  EXPECT_EQ(param_of(invalid_argument("n is 0"), body), "n");
  EXPECT_EQ(param_of(invalid_argument("messages[0].content must be a string"), body),
            "messages[0].content");
  EXPECT_EQ(param_of(invalid_argument("messages[0]: 'role' is missing"), body), "messages[0]");
  EXPECT_EQ(param_of(invalid_argument("prompt is missing"), body), "prompt");
  EXPECT_EQ(param_of(not_found("The model `m` does not exist."), body), "model");
  for (const char* message : {"", "n", "[0] is wrong", "the prompt is empty", "nn is 0"}) {
    EXPECT_EQ(param_of(invalid_argument(message), body), "") << message;
  }
  EXPECT_EQ(error_response(invalid_argument("n is 0"), "n").body,
            R"({"error":{"message":"n is 0","type":"BadRequestError","param":"n","code":400}})");
}

TEST(ApiKeys, MatchWholeOnly) {
  const std::vector<std::string> keys{"secret", "other"};
  EXPECT_TRUE(matches_a_key("secret", keys));
  EXPECT_TRUE(matches_a_key("other", keys));
  for (const char* wrong : {"", "secre", "secretsecret", "secrets", "Secret"}) {
    EXPECT_FALSE(matches_a_key(wrong, keys)) << wrong;
  }
  EXPECT_FALSE(matches_a_key("x", std::vector<std::string>{""}));
}

}  // namespace
}  // namespace octavo::server
