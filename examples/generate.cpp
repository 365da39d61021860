// Asks a model one question and prints the answer as it is made. Ctrl-C ends the answer, not the
// program: what was generated until then is counted like any other.
//
//   generate MODEL PROMPT        e.g. generate model.gguf "Why is the sky blue?"
#include <octavo/octavo.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) {
  g_interrupted = 1;
}

int fail(const octavo::Status& status) {
  std::fprintf(stderr, "generate: %s\n", status.message().c_str());
  return 1;
}

// The ids of a conversation of one turn, ready for the model to answer.
octavo::Result<std::vector<octavo::TokenId>> make_prompt(const octavo::Tokenizer& tokenizer,
                                                         const std::string& question) {
  const octavo::Message messages[] = {{"user", question}};
  const auto prompt = tokenizer.render(octavo::to_messages_json(messages), {});
  if (!prompt.ok()) return prompt.status();
  return tokenizer.encode_prompt(*prompt);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: generate MODEL PROMPT\n");
    return 2;
  }
  const auto loaded = octavo::Model::load(argv[1], {});
  if (!loaded.ok()) return fail(loaded.status());
  octavo::Model& model = **loaded;
  if (model.tokenizer() == nullptr) return fail(model.tokenizer_status());

  const auto prompt = make_prompt(*model.tokenizer(), argv[2]);
  if (!prompt.ok()) return fail(prompt.status());

  octavo::Request request;
  request.prompt_token_ids = *prompt;
  request.sampling.temperature = 0;  // the same answer every time
  request.sampling.max_tokens = 1024;

  std::signal(SIGINT, on_interrupt);
  const auto answer = model.generate(request, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0 && g_interrupted == 0;
  });
  if (!answer.ok()) return fail(answer.status());

  std::printf("\n");
  const double decode_s = answer->timings.decode_s;
  std::fprintf(
      stderr, "%lld prompt tokens, %lld generated (%s), %.1f tokens/s\n",
      static_cast<long long>(answer->usage.prompt_tokens),
      static_cast<long long>(answer->usage.completion_tokens),
      octavo::finish_reason_name(answer->finish_reason),
      decode_s > 0 ? static_cast<double>(answer->usage.completion_tokens - 1) / decode_s : 0);
  return std::fflush(stdout) == 0 ? 0 : 1;
}
