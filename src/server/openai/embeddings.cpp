// POST /v1/embeddings.
#include <algorithm>
#include <cstring>

#include "base/base64.h"
#include "base/check.h"
#include "base/format.h"
#include "server/openai/error.h"
#include "server/openai/fields.h"
#include "server/openai/generation.h"
#include "server/openai/handlers.h"
#include "server/openai/prompts.h"
#include "server/openai/sampling_fields.h"

namespace octavo::server {
namespace {

class EmbeddingsFormat final : public OutputFormat {
 public:
  EmbeddingsFormat(const ServerConfig& config, std::string id, bool as_base64)
      : config_(config), id_(std::move(id)), as_base64_(as_base64) {}

  std::string whole(const std::vector<RequestOutput>& outputs) override {
    JsonArray data;
    for (size_t i = 0; i < outputs.size(); ++i) {
      data.push_back(JsonObject{
          {"index", i}, {"object", "embedding"}, {"embedding", vector(outputs[i].embedding)}});
    }
    return dump_json(JsonObject{{"id", id_},
                                {"object", "list"},
                                {"created", unix_time()},
                                {"model", config_.served_model_names[0]},
                                {"data", std::move(data)},
                                {"usage", usage_json(total_usage(outputs), config_)}});
  }

  // Embeddings are never streamed.
  void append_event(std::string&, size_t, const RequestOutput&) override {}
  void append_end(std::string&, const Usage&) override {}
  void append_error(std::string&, const Status&) override {}

 private:
  Json vector(const std::vector<float>& values) const {
    if (!as_base64_) return JsonArray(values.begin(), values.end());
    // Of the values as they lie in memory: little-endian, which clients expect.
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return Json(base64_encode(bytes));
  }

  const ServerConfig& config_;
  const std::string id_;
  const bool as_base64_;
};

void read_dimensions(Fields& fields, const ServerConfig& config, int64_t hidden_size,
                     PoolingParams& pooling) {
  std::optional<int64_t> dimensions;
  fields.read("dimensions", dimensions);
  if (!dimensions) return;
  const auto& allowed = config.matryoshka_dimensions;
  if (!config.is_matryoshka && allowed.empty()) {
    return fields.fail("dimensions",
                       "is not available: the model is not known to have embeddings that may be "
                       "cut (--hf-overrides '{\"is_matryoshka\": true}' says that it has)");
  }
  if (*dimensions < 1 || *dimensions > hidden_size) {
    return fields.fail("dimensions", format("must lie in 1..{}", hidden_size));
  }
  if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), *dimensions) == allowed.end()) {
    std::string list;
    for (const int64_t one : allowed) list += format("{}{}", list.empty() ? "" : ", ", one);
    return fields.fail("dimensions", "must be one of " + list);
  }
  pooling.dimensions = *dimensions;
}

Result<std::vector<Prompt>> read_input(App& app, Fields& fields) {
  if (fields.find("messages") != nullptr) {
    std::vector<Prompt> prompts;
    prompts.push_back(OCTAVO_TRY(read_chat_prompt(app, fields)));
    return prompts;
  }
  bool add_special_tokens = true;
  fields.read("add_special_tokens", add_special_tokens);
  const Json* input = fields.find("input");
  if (input == nullptr) fields.fail("input", "is missing");
  OCTAVO_TRY(fields.status());
  return read_prompts(app, "input", *input, add_special_tokens, false);
}

Result<GenerationJob> make_embeddings_job(App& app, const HttpRequest& http,
                                          const JsonObject& body) {
  Fields fields(body);
  OCTAVO_TRY(check_model(fields, app.config()));
  const ModelInfo& info = app.engine().info();
  GenerationOptions options;
  EngineRequest& request = options.request;
  request.pooling = app.config().pooling;
  request.output_kind = OutputKind::kFinalOnly;
  read_dimensions(fields, app.config(), info.hidden_size, *request.pooling);
  fields.read("normalize", request.pooling->normalize);
  fields.read("priority", request.priority);
  fields.read("cache_salt", request.cache_salt);
  fields.read("request_id", options.request_id);
  read_truncation(fields, options);
  std::string encoding = "float";
  fields.read("encoding_format", encoding);
  if (encoding != "float" && encoding != "base64") {
    fields.fail("encoding_format", "must be float or base64");
  }
  fields.find("user");
  OCTAVO_TRY(fields.status());
  std::vector<Prompt> prompts = OCTAVO_TRY(read_input(app, fields));
  OCTAVO_TRY(fields.finish());
  GenerationJob job;
  job.id = make_response_id("embd-", http, options.request_id);
  for (Prompt& prompt : prompts) {
    OCTAVO_TRY(cut_prompt(prompt.token_ids, options, info.max_model_len));
    request.prompt_token_ids = std::move(prompt.token_ids);
    job.requests.push_back(request);
  }
  job.format = std::make_unique<EmbeddingsFormat>(app.config(), job.id, encoding == "base64");
  return job;
}

}  // namespace

void handle_embeddings(App& app, const std::shared_ptr<Exchange>& exchange) {
  answer_generation(app, exchange, make_embeddings_job);
}

}  // namespace octavo::server
