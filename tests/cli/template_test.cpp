// `octavo template`: what it prints, and how it fails.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "cli/run_octavo.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

using testing::expect_failure;
using testing::octavo;
using testing::Outcome;
using testing::read_file;

// A file with this text, which the test's next file of that name replaces.
std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = testing::temp_path(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(CliTemplate, PrintsWhatPythonRenders) {
  const std::string data = OCTAVO_TEST_DATA "/chat-templates/";
  const std::string name = "Qwen-Qwen2.5-7B-Instruct";
  const Json conversations = parse_json(read_file(data + "conversations.json"), "test").value();
  const Json golden = parse_json(read_file(data + "golden/" + name + ".json"), "test").value();
  for (const char* row : {"several turns", "tools", "tools, no prompt", "unicode"}) {
    JsonObject context = conversations.at(row).as_object();
    std::string command =
        "template " + data + name + ".jinja - --tools " +
        file_with("tools.json",
                  dump_json(context["tools"].is_null() ? Json(JsonArray{}) : context["tools"]));
    if (!context["add_generation_prompt"].as_bool()) command += " --no-generation-prompt";
    const std::string messages = dump_json(context["messages"]);
    for (const char* key : {"messages", "tools", "add_generation_prompt"}) context.erase(key);
    command += " --context " + file_with("context.json", dump_json(context));
    const Outcome run = octavo(command, messages);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, std::string(to_view(golden.at(row).at("text").as_string()))) << row;
    EXPECT_EQ(run.err, "");
  }
}

TEST(CliTemplate, OfAModelKnowsItsTokens) {
  const std::string model = OCTAVO_TEST_DATA "/smollm2/vocab.gguf";
  const std::string messages = file_with("messages.json", R"([{"role":"user","content":"Hi"}])");
  const Outcome run = octavo("template " + model + " " + messages);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.out.ends_with("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"));
  const Outcome bare = octavo("template " + model + " " + messages + " --no-generation-prompt");
  EXPECT_TRUE(bare.out.ends_with("<|im_start|>user\nHi<|im_end|>\n")) << bare.out;
  // A folder with nothing but a tokenizer.
  const std::string folder = testing::temp_path("folder");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/tokenizer.json")
      << R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
             "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  std::ofstream(folder + "/tokenizer_config.json") << R"({"eos_token": "a"})";
  expect_failure(octavo("template " + folder + " " + messages), 1, "no chat template");
  std::ofstream(folder + "/chat_template.jinja") << "{{ messages[0].content }}{{ eos_token }}";
  EXPECT_EQ(octavo("template " + folder + "/ " + messages).out, "Hia");
  std::filesystem::remove_all(folder);
}

TEST(CliTemplate, ErrorsNameTheFile) {
  const std::string messages = file_with("messages.json", "[]");
  const std::string chat = file_with("chat.jinja", "{{ raise_exception('Speak first.') }}");
  const std::string broken = file_with("broken.jinja", "{% if %}");
  const std::string run = "template " + chat + " ";
  expect_failure(octavo(run + messages), 1, "Speak first.");
  expect_failure(octavo("template " + broken + " " + messages), 1,
                 "broken.jinja: chat template:1:");
  expect_failure(octavo("template /no/such.jinja " + messages), 1, "/no/such.jinja");
  expect_failure(octavo(run + "/no/such.json"), 1, "/no/such.json");
  expect_failure(octavo(run + file_with("bad.json", "[{]")), 1, "bad.json");
  expect_failure(octavo(run + "-", "[{]"), 1, "standard input");
  expect_failure(octavo(run + file_with("object.json", "{}")), 1, "messages: must be an array");
  expect_failure(octavo(run + messages + " --tools /no/tools"), 1, "/no/tools");
  expect_failure(octavo(run + messages + " --tools " + file_with("t.json", "{}")), 1,
                 "tools: must");
  expect_failure(octavo(run + messages + " --context " + messages), 1, "context: must");
  expect_failure(octavo("template " + chat), 2, "MESSAGES");
}

}  // namespace
}  // namespace octavo
