// The commands as a user runs them: output, exit codes, messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "cli/run_octavo.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo {
namespace {

using testing::expect_failure;
using testing::octavo;
using testing::Outcome;
using testing::read_file;
using testing::tiny_model;

TEST(Cli, UsageErrorsExitWithTwo) {
  expect_failure(octavo(""), 2, "no command");
  expect_failure(octavo("rum"), 2, "rum");
  expect_failure(octavo("run"), 2, "MODEL");
  expect_failure(octavo("run m.gguf hi --frobnicate"), 2, "--frobnicate");
  expect_failure(octavo("run m.gguf hi --threads two"), 2, "--threads");
  expect_failure(octavo("run m.gguf hi --backend tpu"), 2, "--backend");
  expect_failure(octavo("run m.gguf hi --attention-backend flash"), 2, "--attention-backend");
  expect_failure(octavo("run m.gguf hi --token-ids 1"), 2, "--token-ids");
  expect_failure(octavo("run m.gguf --token-ids 1,x"), 2, "'x'");
  expect_failure(octavo("run m.gguf --raw"), 2, "--raw");
  expect_failure(octavo("logits m.gguf --output x"), 2, "--token-ids");
  expect_failure(octavo("inspect"), 2, "MODEL");
  expect_failure(octavo("bench startup m.gguf"), 2, "startup");
}

TEST(Cli, BadSamplingValuesAreUsageErrors) {
  expect_failure(octavo("run m.gguf hi --temperature nan"), 2, "temperature");
  expect_failure(octavo("run m.gguf hi --top-p 2"), 2, "top_p");
  expect_failure(octavo("run m.gguf hi --max-tokens 0"), 2, "max_tokens");
}

TEST(Cli, UnreadableInputIsAnError) {
  expect_failure(octavo("tokenize " + tiny_model() + " - </tmp"), 1, "");
}

TEST(Cli, MessagesCannotSteerATerminal) {
  const Outcome run = octavo("run $'no\\e[31m\\nsuch' hi");
  EXPECT_EQ(run.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1);
}

TEST(Cli, ValuesKeepTheirUnderscores) {
  expect_failure(octavo("run m.gguf hi --logit-bias '--a_b'"), 2, "--a_b");
}

TEST(Cli, LogitsKeepsALinkAndWritesToAPipe) {
  const std::string real = testing::temp_path("real");
  const std::string link = testing::temp_path("link");
  std::ofstream(real) << "old";
  std::filesystem::create_symlink(real, link);
  const std::string command = "logits " + tiny_model() + " --token-ids 1 --output ";
  EXPECT_EQ(octavo(command + link).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::filesystem::file_size(real), octavo(command + "/dev/stdout").out.size());
}

TEST(Cli, HelpShowsExamplesAndExitsWithZero) {
  const Outcome general = octavo("--help");
  EXPECT_EQ(general.exit_code, 0);
  for (const char* command :
       {"run", "tokenize", "detokenize", "template", "logits", "eval", "eval perplexity",
        "eval compare", "bench", "inspect", "pull", "list", "remove", "doctor"}) {
    const std::string name = std::string(command).substr(0, std::string(command).find(' '));
    EXPECT_NE(general.out.find("  " + name + " "), std::string::npos) << name;
    const Outcome help = octavo(std::string(command) + " --help");
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_NE(help.out.find("Examples:"), std::string::npos) << command;
  }
}

TEST(Cli, OperatingErrorsExitWithOneAndNameTheFile) {
  expect_failure(octavo("run no-such-model hi"), 1, "no-such-model");
  expect_failure(octavo("run smollm2 hi", "", "OCTAVO_HOME=/nonexistent"), 1,
                 "/nonexistent/models/");
  expect_failure(octavo("tokenize " OCTAVO_BINARY " hi"), 1, OCTAVO_BINARY);
  expect_failure(octavo("inspect /"), 1, "/");
  const std::string model = tiny_model();
  expect_failure(octavo("run " + model + " hi"), 1, "tokenizer");
  expect_failure(octavo("run " + model + " --token-ids 1,101"), 1, "101");
  expect_failure(octavo("run " + model + " --token-ids 1 --max-model-len 5000"), 1, "5000");
  expect_failure(octavo("run " + model + " --token-ids 1", "", "OCTAVO_KERNELS=sse9"), 1, "sse9");
  expect_failure(octavo("logits " + model + " --token-ids 1 --output /no/such/dir/x"), 1,
                 "/no/such/dir/x");
}

TEST(Cli, TruncatedFilesAreNamed) {
  const std::string model = tiny_model();
  const auto size = std::filesystem::file_size(model);
  for (const auto cut : {size - 1, size / 2, size_t{100}, size_t{3}, size_t{0}}) {
    std::filesystem::resize_file(model, cut);
    expect_failure(octavo("run " + model + " --token-ids 1"), 1, model);
    expect_failure(octavo("inspect " + model), 1, model);
  }
}

TEST(Cli, RunTokenIdsAndJson) {
  const Outcome run =
      octavo("run " + tiny_model() + " --token-ids 1,2,3 --max_tokens 5 --json --threads 1");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");  // no progress bar in a pipe
  const Json report = parse_json(run.out, "output").value();
  EXPECT_EQ(report.at("token_ids").as_array().size(), 5u);
  EXPECT_EQ(report.at("finish_reason"), "length");
  EXPECT_EQ(report.at("usage").at("prompt_tokens"), 3);
  EXPECT_EQ(report.at("usage").at("completion_tokens"), 5);
  EXPECT_EQ(report.at("usage").at("total_tokens"), 8);
  EXPECT_GT(report.at("timings").at("prefill_tokens_per_s").as_double(), 0);
}

TEST(Cli, ASeedFixesTheAnswer) {
  const std::string model = tiny_model();
  const auto ids = [&](const std::string& flags) {
    const Outcome run = octavo(
        "run " + model + " --token-ids 1,2,3 --max-tokens 30 --json --temperature 1 " + flags);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return dump_json(parse_json(run.out, "output").value().at("token_ids"));
  };
  EXPECT_EQ(ids("--seed 7 --threads 1"), ids("--seed 7 --threads 2"));
  EXPECT_NE(ids("--seed 7"), ids("--seed 8"));
}

TEST(Cli, LogitsWritesASafetensorsFile) {
  const std::string output = testing::temp_path("out.safetensors");
  const Outcome run =
      octavo("logits " + tiny_model() + " --token-ids 1,2,3,4 --positions all --output " + output);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string file = read_file(output);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const Json header = parse_json(file.substr(8, header_bytes), "header").value();
  EXPECT_EQ(header.at("logits").at("dtype"), "F32");
  EXPECT_EQ(dump_json(header.at("logits").at("shape")), "[4,101]");
  EXPECT_EQ(file.size(), 8 + header_bytes + 4 * 101 * sizeof(float));
}

TEST(Cli, BenchReportsRates) {
  const Outcome run = octavo("bench latency " + tiny_model() +
                             " --input-len 32 --output-len 4 --num-iters 2 --batch-size 2 --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json report = parse_json(run.out, "output").value();
  EXPECT_GT(report.at("prefill_tokens_per_s").as_double(), 0);
  EXPECT_GT(report.at("decode_tokens_per_s").as_double(), 0);
  EXPECT_GT(report.at("memory_read_gb_per_s").as_double(), 0);
}

TEST(Cli, DoctorNamesTheKernelSet) {
  const Outcome forced = octavo("doctor --json", "", "OCTAVO_KERNELS=generic");
  ASSERT_EQ(forced.exit_code, 0) << forced.err;
  EXPECT_EQ(parse_json(forced.out, "output").value().at("backend").at("kernels"), "generic");
  EXPECT_EQ(parse_json(forced.out, "output").value().at("backend").at("attention"),
            "paged (the one implementation of the backend 'cpu')");
  const Outcome plain = octavo("doctor");
  EXPECT_NE(plain.out.find("Threads"), std::string::npos);
  EXPECT_NE(plain.out.find("GPU"), std::string::npos);
}

TEST(Cli, InspectDescribesAModel) {
  const std::string model = tiny_model();
  const Outcome run = octavo("inspect " + model + " --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json report = parse_json(run.out, "output").value();
  EXPECT_EQ(report.at("path"), Json(model));
  EXPECT_EQ(report.at("format"), "gguf");
  EXPECT_EQ(report.at("version"), 3);
  EXPECT_EQ(report.at("file_bytes"), std::filesystem::file_size(model));
  EXPECT_EQ(report.at("use").at("runs"), true);
  EXPECT_EQ(report.at("use").at("memory").at("weight_bytes"), report.at("total").at("bytes"));
  EXPECT_EQ(report.at("use").at("memory").at("max_model_len"), 1024);
  EXPECT_EQ(report.at("use").at("tokenizes"), false);  // it has no vocabulary
  const Json& metadata = report.at("metadata");
  EXPECT_EQ(dump_json(metadata.at("llama.block_count")), R"({"type":"u32","value":2})");
  EXPECT_EQ(dump_json(metadata.at("llama.attention.layer_norm_rms_epsilon")),
            R"({"type":"f32","value":1e-05})");
  // 2 layers of 7 matrices and 2 norms, the embedding, the last norm.
  const JsonArray& tensors = report.at("tensors").as_array();
  ASSERT_EQ(tensors.size(), 20u);
  EXPECT_EQ(tensors[0].at("name"), "token_embd.weight");
  EXPECT_EQ(tensors[0].at("type"), "q8_0");
  EXPECT_EQ(dump_json(tensors[0].at("shape")), "[101,64]");
  EXPECT_EQ(tensors[0].at("bytes"), 101 * 64 / 32 * 34);
  EXPECT_EQ(report.at("types").at("float32").at("tensors"), 5);
  EXPECT_EQ(report.at("types").at("float32").at("bytes"), 5 * 64 * 4);
  int64_t bytes = 0;
  for (const Json& tensor : tensors) bytes += tensor.at("bytes").as_int64();
  EXPECT_EQ(report.at("total").at("bytes"), bytes);

  const Outcome text = octavo("inspect " + model);
  for (const char* part :
       {"Runs        yes", "llama.block_count", "u32", "token_embd.weight", "[101,64]"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " in\n" << text.out;
  }
}

TEST(Cli, InspectSaysWhyAModelDoesNotRun) {
  testing::TinyLlama spec;
  spec.edit_tensor = [](std::string& name, DType&, Shape&) { return name != "output_norm.weight"; };
  const std::string model = testing::temp_path("model.gguf");
  testing::write_tiny_llama(model, spec);
  const Outcome run = octavo("inspect " + model);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("Runs        no: "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("'output_norm.weight' is missing"), std::string::npos) << run.out;
  EXPECT_EQ(run.out.find("Memory"), std::string::npos);
}

TEST(Cli, InspectOfAVocabularyCutsLongArrays) {
  const Outcome run = octavo("inspect " OCTAVO_TEST_DATA "/vocabs/ggml-vocab-gpt-2.gguf --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json report = parse_json(run.out, "output").value();
  EXPECT_EQ(report.at("use").at("runs"), false);
  EXPECT_EQ(report.at("use").at("tokenizes"), true) << dump_json(report.at("use"));
  EXPECT_EQ(dump_json(report.at("metadata").at("tokenizer.ggml.tokens")),
            R"({"type":"array[string]","count":50257,"first":["!","\"","#","$","%","&"]})");
  EXPECT_LT(run.out.size(), 10000u);
}

TEST(Cli, InspectEscapesControlCharacters) {
  testing::TinyLlama spec;
  spec.edit_metadata = [](JsonObject& metadata) {
    metadata["general.name"] = "\x1b[31m";
    metadata["\x1b[32m"] = "key";
  };
  spec.edit_tensor = [](std::string& name, DType&, Shape&) {
    name += "\x1b[33m";
    return true;
  };
  const std::string model = testing::temp_path("model.gguf");
  testing::write_tiny_llama(model, spec);
  for (const char* flag : {"", " --json"}) {
    const Outcome run = octavo("inspect " + model + flag);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out.find('\x1b'), std::string::npos) << run.out;
    for (const char* part : {"\\u001b[31m", "\\u001b[32m", "\\u001b[33m"}) {
      EXPECT_NE(run.out.find(part), std::string::npos) << part;
    }
  }
}

TEST(Cli, DetokenizeIsTheWayBack) {
  const std::string model = OCTAVO_TEST_DATA "/vocabs/ggml-vocab-llama-spm.gguf";
  const std::string text = "Grüße, 世界 🦙";
  const Outcome ids = octavo("tokenize " + model + " -", text);
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_EQ(octavo("detokenize " + model + " -", ids.out).out, text + "\n");
  EXPECT_EQ(octavo("detokenize " + model + " 1,15043,3186,29991").out, "Hello world!\n");
  EXPECT_EQ(octavo("detokenize " + model + " '1 15043, 3186' --show-special").out,
            "<s> Hello world\n");
  EXPECT_EQ(octavo("detokenize " + model + " 15043,3186 --json").out,
            "{\"text\":\"Hello world\",\"pieces\":[\"▁Hello\",\"▁world\"]}\n");
  EXPECT_EQ(octavo("detokenize " + model + " -", "").out, "\n");
  expect_failure(octavo("detokenize " + model + " 1,x"), 2, "IDS: 'x'");
  expect_failure(octavo("detokenize " + model + " 1,32000"), 1, "token 32000");
  expect_failure(octavo("detokenize " + model), 2, "IDS");
}

// The real model from here on: scripts/fetch_model.sh fetches it.
TEST(CliSmolLm2, AnswersFromStandardInputWithASystemMessage) {
  const Outcome run = octavo("run smollm2 - --system 'You are a poet.' --max-tokens 2 --json",
                             "Write two lines about the sea.");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json report = parse_json(run.out, "output").value();
  EXPECT_EQ(report.at("text"), "The sea");
  EXPECT_EQ(report.at("usage").at("prompt_tokens"), 26);
}

TEST(CliSmolLm2, StopStringsAreCutOff) {
  const Outcome run = octavo(
      "run smollm2 'What is gravity? Answer briefly.' --stop 'al con' --max-tokens 20 --json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json report = parse_json(run.out, "output").value();
  EXPECT_EQ(report.at("text"), "Gravity is a fundament");
  EXPECT_EQ(report.at("finish_reason"), "stop");
}

// "Why?" is answered differently after a first turn than at the beginning.
TEST(CliSmolLm2, ChatRemembersAndResets) {
  const std::string question = "What is gravity? Answer briefly.\n";
  const Outcome chat =
      octavo("run smollm2 --max-tokens 8", question + "Why?\n/reset\nWhy?\n/reset\n" + question);
  ASSERT_EQ(chat.exit_code, 0) << chat.err;
  std::vector<std::string> answers;
  std::istringstream lines(chat.out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) answers.push_back(line);
  }
  ASSERT_EQ(answers.size(), 4u) << chat.out;
  EXPECT_EQ(answers[0], "Gravity is a fundamental concept in physics");
  EXPECT_NE(answers[1], answers[2]);
  EXPECT_EQ(answers[3], answers[0]);
}

TEST(CliSmolLm2, ChatCommandsThatAreNoTurns) {
  const Outcome chat = octavo("run smollm2", "/help\n/nope\n/system Be brief.\n/reset\n");
  EXPECT_EQ(chat.exit_code, 0);
  EXPECT_NE(chat.out.find("/system"), std::string::npos);
  EXPECT_NE(chat.err.find("/nope"), std::string::npos);
}

TEST(CliSmolLm2, TokenizePrintsIdsOnOneLine) {
  EXPECT_EQ(octavo("tokenize smollm2 'Hello, world!'").out, "19556 28 905 17\n");
  EXPECT_EQ(octavo("tokenize smollm2 - --parse-special", "<|im_end|>").out, "2\n");
  EXPECT_NE(octavo("tokenize smollm2 - ", "<|im_end|>").out, "2\n");
  const Json report = parse_json(octavo("tokenize smollm2 'Hello, world!' --json").out, "").value();
  EXPECT_EQ(dump_json(report.at("ids")), "[19556,28,905,17]");
  EXPECT_EQ(dump_json(report.at("pieces")), "[\"Hello\",\",\",\"Ġworld\",\"!\"]");
}

}  // namespace
}  // namespace octavo
