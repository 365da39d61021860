// `octavo generate`: what lines become, and that a run which was killed goes on without losing or
// doubling one.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "base/clock.h"
#include "base/json.h"
#include "cli/run_octavo.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

using testing::expect_failure;
using testing::octavo;
using testing::Outcome;
using testing::read_file;
using testing::temp_path;
using testing::tiny_model;

std::string write_lines(const std::string& text) {
  std::string path = temp_path("in.jsonl");
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::vector<Json> read_answers(const std::string& path) {
  std::vector<Json> answers;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    answers.push_back(parse_json(line, "answer").value());
  }
  return answers;
}

Outcome answer_file(const std::string& model, const std::string& input, const std::string& output,
                    const std::string& flags = "", const std::string& prefix = "") {
  return octavo("generate " + model + " --input " + input + " --output " + output + " " + flags, "",
                prefix);
}

std::string message_of(const Json& answer) {
  const Json* error = json_find(answer, "error");
  return error == nullptr ? "" : json_string(*error, "message", "error").value();
}

// Requests of different lengths, and one answer of each without what is different in every run.
std::string many_requests(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    text += "{\"prompt_token_ids\": [" + std::to_string(i % 90 + 3) + ", 7], \"temperature\": 0, " +
            "\"max_tokens\": " + std::to_string(3 + i * 7 % 40) + "}\n";
  }
  return text;
}

std::vector<std::string> comparable(const std::string& path) {
  std::vector<std::string> result;
  for (const Json& answer : read_answers(path)) {
    result.push_back(dump_json(answer.at("index")) + dump_json(answer.at("outputs")));
  }
  return result;
}

TEST(Generate, AnswersAreThoseOfRunInTheOrderOfTheInput) {
  const std::string model = tiny_model();
  const std::string output = temp_path("out.jsonl");
  // The first takes longest.
  const std::string lengths[] = {"60", "3", "20", "1"};
  std::string input;
  for (const std::string& length : lengths) {
    input += "{\"prompt_token_ids\": [5, 6, " + length +
             "], \"temperature\": 0, \"ignore_eos\": " + "true, \"max_tokens\": " + length +
             "}\n\n";
  }
  const Outcome run = answer_file(model, write_lines(input), output);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
  const std::vector<Json> answers = read_answers(output);
  ASSERT_EQ(answers.size(), std::size(lengths));
  for (size_t i = 0; i < answers.size(); ++i) {
    const Outcome alone = octavo("run " + model + " --token-ids 5,6," + lengths[i] +
                                 " --ignore-eos --json --max-tokens " + lengths[i]);
    const Json expected = parse_json(alone.out, "run").value();
    EXPECT_EQ(answers[i].at("index"), Json(i));
    const Json& answer = answers[i].at("outputs").at(0);
    EXPECT_EQ(answer.at("token_ids"), expected.at("token_ids"));
    EXPECT_EQ(answer.at("finish_reason"), expected.at("finish_reason"));
    EXPECT_EQ(answers[i].at("usage").at("completion_tokens"),
              expected.at("usage").at("completion_tokens"));
    EXPECT_GT(answers[i].at("metrics").at("prefill_s").to_number<double>(), 0);
  }
}

TEST(Generate, ABadLineIsAnErrorOfItsOwnThatNamesLineAndField) {
  const struct {
    std::string line;
    std::string message;
  } cases[] = {
      {R"({"prompt_token_ids": [1], "temperature": -1})", "line 1: temperature is -1"},
      {R"({"prompt_token_ids": [1], "max_tokens": "many"})", "line 2: max_tokens must be"},
      {R"({"prompt_token_ids": [1, 101]})", "line 3: token id 101 (position 1)"},
      {R"({"prompt_token_ids": []})", "line 4: the prompt is empty"},
      {R"({"prompt_token_ids": [1], "messages": []})", "line 5: prompt, messages or prompt_token"},
      {R"({"max_tokens": 1})", "line 6: prompt, messages or prompt_token_ids must be given"},
      {R"({"prompt": [[1], [2]]})", "line 7: prompt must be one prompt"},
      {R"({"prompt": "text"})", "line 8: this model has no tokenizer"},
      {R"({"prompt_token_ids": [1], "stream": true})", "line 9: stream is not possible"},
      {R"({"prompt_token_ids": [1])", "line 10: the request: not valid JSON"},
      {R"([1])", "line 11: the request must be a JSON object"},
      {R"({"url": "/v1/completions", "body": {}})", "line 12: custom_id is missing"},
  };
  std::string input;
  for (const auto& c : cases) input += c.line + "\n";
  input += R"({"prompt_token_ids": [1], "max_tokens": 2, "temperature": 0})";  // without an end
  const std::string output = temp_path("out.jsonl");
  const Outcome run = answer_file(tiny_model(), write_lines(input), output);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("12 of 13 failed"), std::string::npos) << run.err;
  const std::vector<Json> answers = read_answers(output);
  ASSERT_EQ(answers.size(), std::size(cases) + 1);
  for (size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(answers[i].at("index"), Json(i));
    EXPECT_EQ(message_of(answers[i]).rfind(cases[i].message, 0), 0U) << message_of(answers[i]);
  }
  EXPECT_EQ(answers.back().at("outputs").at(0).at("token_ids").as_array().size(), 2U);
}

TEST(Generate, OpenAiBatchesAreReadAndWritten) {
  const std::string model = tiny_model();
  const std::string input = write_lines(
      R"({"custom_id": "one", "method": "POST", "url": "/v1/completions", )"
      R"("body": {"model": "tiny", "prompt": [5, 6], "max_tokens": 4, "temperature": 0, )"
      R"("return_token_ids": true}})"
      "\n"
      R"({"custom_id": "two", "url": "/v1/completions", "body": {"prompt": [5], "top_p": 2}})"
      "\n"
      R"({"custom_id": "three", "url": "/v1/embeddings", "body": {}})"
      "\n"
      R"({"custom_id": "four", "url": "/v1/completions", "body": {"prompt": [5], "stream": true}})"
      "\n"
      R"({"custom_id": "five", "url": "/v1/completions"})"
      "\n");
  const std::string output = temp_path("out.jsonl");
  const Outcome run = answer_file(model, input, output, "--served-model-name tiny");
  EXPECT_EQ(run.exit_code, 1) << run.err;
  const std::vector<Json> answers = read_answers(output);
  ASSERT_EQ(answers.size(), 5U);
  const char* const ids[] = {"one", "two", "three", "four", "five"};
  const char* const messages[] = {"", "line 2: top_p is 2", "line 3: url must be /v1/chat",
                                  "line 4: body.stream", "line 5: body is missing"};
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].at("custom_id"), Json(ids[i]));
    EXPECT_EQ(answers[i].at("response").at("status_code"), Json(i == 0 ? 200 : 400));
    EXPECT_EQ(message_of(answers[i]).rfind(messages[i], 0), 0U) << message_of(answers[i]);
  }
  const Json& choice = answers[0].at("response").at("body").at("choices").at(0);
  const Outcome alone = octavo("run " + model + " --token-ids 5,6 --max-tokens 4 --json");
  EXPECT_EQ(choice.at("token_ids"), parse_json(alone.out, "run").value().at("token_ids"));
  // Nothing is left to do, and what failed before still decides.
  EXPECT_EQ(answer_file(model, input, output).exit_code, 1);
  EXPECT_EQ(read_answers(output).size(), 5U);
}

TEST(Generate, GoesOnWhereAFileWasCutAtAnyByte) {
  const std::string model = tiny_model();
  const std::string input = write_lines(many_requests(12));
  const std::string output = temp_path("out.jsonl");
  ASSERT_EQ(answer_file(model, input, output).exit_code, 0);
  const std::string whole = read_file(output);
  const std::vector<std::string> expected = comparable(output);
  ASSERT_EQ(expected.size(), 12U);
  std::mt19937 random(17);
  for (int i = 0; i < 8; ++i) {
    const size_t size = i == 0 ? whole.size() - 1 : random() % whole.size();
    std::ofstream(output, std::ios::binary) << whole.substr(0, size);
    ASSERT_EQ(answer_file(model, input, output).exit_code, 0);
    EXPECT_EQ(comparable(output), expected) << size;
  }
}

TEST(Generate, NoLineIsLostOrDoubledWhereTheProcessIsKilled) {
  const std::string model = tiny_model();
  const std::string input = write_lines(many_requests(600));
  const std::string expected_output = temp_path("expected.jsonl");
  const double start = now_seconds();
  ASSERT_EQ(answer_file(model, input, expected_output).exit_code, 0);
  const double whole_s = now_seconds() - start;
  const std::string output = temp_path("out.jsonl");
  std::mt19937 random(5);
  int num_killed = 0;
  for (int i = 0; i < 12; ++i) {
    // Of what all takes on this machine, a tenth to a half.
    const double seconds = whole_s * (0.1 + 0.04 * static_cast<double>(random() % 10));
    const Outcome run = answer_file(model, input, output, "--max-num-seqs 4",
                                    "timeout -s KILL " + std::to_string(seconds));
    num_killed += run.exit_code == 0 ? 0 : 1;
  }
  EXPECT_GT(num_killed, 0);
  ASSERT_EQ(answer_file(model, input, output).exit_code, 0);
  EXPECT_EQ(comparable(output), comparable(expected_output));
}

TEST(Generate, AFileOfSomethingElseIsNotTouched) {
  const std::string model = tiny_model();
  const std::string input = write_lines(many_requests(3));
  const std::string output = temp_path("out.jsonl");
  const std::string others[] = {"{\"index\": 1}\n", "notes\n", "{\"index\": 0}\n{\"index\": 0}\n",
                                "{\"custom_id\": \"a\"}\n"};
  for (const std::string& text : others) {
    std::ofstream(output, std::ios::binary) << text;
    expect_failure(answer_file(model, input, output), 1, "is no answer to request");
    EXPECT_EQ(read_file(output), text);
  }
  EXPECT_EQ(answer_file(model, input, output, "--overwrite").exit_code, 0);
  EXPECT_EQ(read_answers(output).size(), 3U);
  // More answers than requests.
  expect_failure(answer_file(model, write_lines(many_requests(2)), output), 1, "request 2");
}

TEST(Generate, FlagsAndFilesThatAreWrongAreSaidBeforeTheModelIsLoaded) {
  const std::string input = write_lines(many_requests(1));
  expect_failure(octavo("generate m.gguf"), 2, "--input is missing");
  expect_failure(octavo("generate m.gguf --input " + input), 2, "--output is missing");
  expect_failure(answer_file("m.gguf", input, input), 2, "are the same file");
  expect_failure(answer_file("m.gguf", input, "o", "--port 80"), 2, "one of octavo serve");
  expect_failure(answer_file("m.gguf", input, "o", "--max-num-seq 8"), 2, "--max-num-seqs?");
  expect_failure(answer_file("m.gguf", input, "o", "--max-num-queued-reqs 8"), 2,
                 "--max-num-queued-reqs is not supported");
  const std::string model = tiny_model();
  expect_failure(answer_file(model, input, temp_path("none"), "--chat-template '{% if %}'"), 1,
                 "--chat-template");
  expect_failure(answer_file(model, "/nonexistent/in", temp_path("out")), 1, "/nonexistent/in");
  expect_failure(answer_file(model, "/", temp_path("out")), 1, "it is a folder");
  expect_failure(answer_file(model, input, "/nonexistent/out"), 1, "/nonexistent/out");
}

// The window is not the number of requests.
TEST(Generate, MoreRequestsThanTheWindowHolds) {
  const std::string output = temp_path("out.jsonl");
  const Outcome run =
      answer_file(tiny_model(), write_lines(many_requests(100)), output, "--max-num-seqs 2");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Json> answers = read_answers(output);
  ASSERT_EQ(answers.size(), 100U);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].at("index"), Json(i));
}

// Answers to one request share the pages of its prompt that are full.
TEST(Generate, ThePageTableIsPrintedWhereItIsAskedFor) {
  const std::string input = write_lines(
      R"({"prompt_token_ids": [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,3], "n": 2, "max_tokens": 3, )"
      R"("ignore_eos": true})"
      "\n");
  const Outcome run =
      answer_file(tiny_model(), input, temp_path("out.jsonl"), "--debug-page-table");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::istringstream lines(run.err);
  std::string line;
  std::vector<std::string> first_pages;
  for (int answer = 0; answer < 2; ++answer) {
    const std::string title = "page table of line 1, answer " + std::to_string(answer);
    while (std::getline(lines, line) && line != title) {
    }
    EXPECT_EQ(line, title) << run.err;
    std::getline(lines, line);
    std::getline(lines, line);
    first_pages.push_back(line);
    std::getline(lines, line);
    EXPECT_EQ(line.substr(0, 6), "     1") << run.err;
  }
  EXPECT_EQ(first_pages[0], first_pages[1]);
  EXPECT_EQ(first_pages[0].back(), '2');  // references
}

}  // namespace
}  // namespace octavo
