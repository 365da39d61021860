// POST /generate: the form of vLLM's first demonstration server, which scripts still use.
#include <algorithm>

#include "base/check.h"
#include "server/openai/error.h"
#include "server/openai/fields.h"
#include "server/openai/generation.h"
#include "server/openai/handlers.h"
#include "server/openai/prompts.h"
#include "server/openai/sampling_fields.h"

namespace octavo::server {
namespace {

// {"text": ["prompt and answer", …]}; streamed as one such object a line, each with all so far.
class GenerateFormat final : public OutputFormat {
 public:
  GenerateFormat(const std::string& prompt, int32_t n) : texts_(static_cast<size_t>(n), prompt) {}

  std::string whole(const std::vector<RequestOutput>& outputs) override {
    add(outputs.at(0));
    return dump_json(body());
  }
  void append_event(std::string& out, size_t, const RequestOutput& output) override {
    if (output.outputs.empty()) return;
    add(output);
    out += dump_json(body()) + "\n";
  }
  void append_end(std::string&, const Usage&) override {}
  void append_error(std::string& out, const Status& status) override {
    out += dump_json(error_body(status)) + "\n";
  }
  const char* stream_content_type() const override { return "application/x-ndjson"; }

 private:
  void add(const RequestOutput& output) {
    for (const CompletionOutput& answer : output.outputs) {
      texts_.at(static_cast<size_t>(answer.index)) += answer.text;
    }
  }
  JsonObject body() const { return {{"text", JsonArray(texts_.begin(), texts_.end())}}; }

  std::vector<std::string> texts_;  // by answer
};

Result<GenerationJob> make_tokens_job(App& app, const HttpRequest& http, const JsonObject& body) {
  Fields fields(body);
  GenerationOptions options = read_generation_options(fields, app.config());
  EngineRequest& request = options.request;
  read_max_tokens(fields, request.sampling);
  limit_max_tokens(app.config(), request.sampling);
  std::string text;
  fields.read("prompt", text);
  if (text.empty()) fields.fail("prompt", "is missing or empty");
  OCTAVO_TRY(fields.finish());
  OCTAVO_TRY(validate_sampling(request.sampling));
  OCTAVO_TRY(check_num_answers(app, request.n));
  std::vector<Prompt> prompts = OCTAVO_TRY(read_prompts(app, "prompt", Json(text), true, false));
  OCTAVO_TRY(cut_prompt(prompts[0].token_ids, options, app.engine().info().max_model_len));
  GenerationJob job;
  job.stream = options.stream;
  job.id = make_response_id("", http, options.request_id);
  job.format = std::make_unique<GenerateFormat>(text, request.n);
  request.prompt_token_ids = std::move(prompts[0].token_ids);
  job.requests.push_back(std::move(request));
  return job;
}

}  // namespace

void handle_generate(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer_generation(app, exchange, make_tokens_job);
}

}  // namespace octavo::server
