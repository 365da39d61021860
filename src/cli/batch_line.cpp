#include "cli/batch_line.h"

#include <cstdio>
#include <exception>
#include <memory>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/page_table_text.h"
#include "cli/token_json.h"
#include "server/openai/error.h"
#include "server/openai/fields.h"
#include "server/openai/handlers.h"
#include "server/openai/prompts.h"
#include "server/openai/sampling_fields.h"

namespace octavo::cli {
namespace {

// Whether requests fail because the engine is no more, not for what they ask.
bool has_stopped(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
}

Status at_line(const BatchLine& line, const Status& status) {
  return {status.code(), format("line {}: {}", line.number, status.message())};
}

// --- octavo's own form --------------------------------------------------------------------------

BatchAnswer plain_failure(const BatchLine& line, const Status& status,
                          const std::string& param = "") {
  BatchAnswer answer;
  if (has_stopped(status)) {
    answer.engine_status = status;
    return answer;
  }
  JsonObject object{{"index", line.index}};
  object["error"] = server::error_body(at_line(line, status), param).at("error");
  answer.text = dump_json(object);
  answer.failed = true;
  return answer;
}

BatchAnswer plain_answer(const BatchLine& line, const SamplingParams& sampling,
                         const RequestOutput& output) {
  if (!output.status.ok()) return plain_failure(line, output.status);
  JsonArray outputs;
  for (const CompletionOutput& one : output.outputs) {
    JsonObject object{{"text", one.text},
                      {"token_ids", JsonArray(one.token_ids.begin(), one.token_ids.end())},
                      {"finish_reason", finish_reason_name(*one.finish_reason)}};
    if (sampling.logprobs) object["logprobs"] = logprobs_json(one.logprobs);
    outputs.push_back(std::move(object));
  }
  const Usage& usage = output.usage;
  const RequestMetrics& metrics = output.metrics;
  JsonObject object{{"index", line.index}, {"outputs", std::move(outputs)}};
  if (sampling.prompt_logprobs) {
    object["prompt_logprobs"] = logprobs_json(output.prompt_logprobs);
  }
  object["usage"] = JsonObject{{"prompt_tokens", usage.prompt_tokens},
                               {"completion_tokens", usage.completion_tokens},
                               {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                               {"cached_tokens", usage.cached_tokens}};
  object["metrics"] = JsonObject{{"queued_s", metrics.queued_s},
                                 {"prefill_s", metrics.prefill_s},
                                 {"decode_s", metrics.decode_s},
                                 {"num_preemptions", metrics.num_preemptions}};
  BatchAnswer answer;
  answer.text = dump_json(object);
  answer.num_tokens = usage.completion_tokens;
  return answer;
}

Result<std::vector<TokenId>> read_prompt(server::App& app, server::Fields& fields) {
  const Json* messages = fields.find("messages");
  const Json* prompt = fields.find("prompt");
  const Json* token_ids = fields.find("prompt_token_ids");
  const int given = (messages != nullptr) + (prompt != nullptr) + (token_ids != nullptr);
  if (given != 1) {
    return invalid_argument(
        format("prompt, messages or prompt_token_ids must be given, and only "
               "one of them; there are {}",
               given));
  }
  if (messages != nullptr) return OCTAVO_TRY(server::read_chat_prompt(app, fields)).token_ids;
  std::vector<TokenId> ids;
  fields.read("prompt_token_ids", ids);
  bool add_special_tokens = true;
  fields.read("add_special_tokens", add_special_tokens);
  OCTAVO_TRY(fields.status());
  if (prompt == nullptr) return ids;
  auto prompts =
      OCTAVO_TRY(server::read_prompts(app, "prompt", *prompt, add_special_tokens, false));
  if (prompts.size() != 1)
    return invalid_argument("prompt must be one prompt: a line is a request");
  return std::move(prompts[0].token_ids);
}

Result<EngineRequest> read_request(const BatchContext& context, const JsonObject& body) {
  server::App& app = context.app;
  server::Fields fields(body);
  server::GenerationOptions options = server::read_generation_options(fields, app.config());
  if (options.stream) fields.fail("stream", "is not possible: answers are lines of a file");
  EngineRequest& request = options.request;
  SamplingParams& sampling = request.sampling;
  if (context.max_tokens > 0) sampling.max_tokens = context.max_tokens;
  fields.read("max_tokens", sampling.max_tokens);
  server::read_max_completion_tokens(fields, sampling);
  fields.read("logprobs", sampling.logprobs);
  fields.read("echo", request.echo);
  OCTAVO_TRY(fields.status());
  OCTAVO_TRY(validate_sampling(sampling));
  request.prompt_token_ids = OCTAVO_TRY(read_prompt(app, fields));
  OCTAVO_TRY(fields.finish());
  OCTAVO_TRY(
      server::cut_prompt(request.prompt_token_ids, options, app.engine().info().max_model_len));
  return request;
}

// While a request runs; it has no blocks any more once its last event has come.
std::string describe_page_tables(AsyncEngine& engine, const BatchLine& line, RequestId id,
                                 int32_t n) {
  std::string text;
  for (int32_t i = 0; i < n; ++i) {
    const auto rows = engine.page_table(id, i);
    if (!rows.ok() || rows->empty()) continue;
    text += format("page table of line {}, answer {}\n{}", line.number, i, page_table_text(*rows));
  }
  return text;
}

void answer_plain(const BatchContext& context, const BatchLine& line, const JsonObject& body,
                  const BatchAnswerFn& done) {
  auto request = read_request(context, body);
  const auto refuse = [&](const Status& status) {
    done(plain_failure(line, status, server::param_of(status, body)));
  };
  if (!request.ok()) return refuse(request.status());
  if (context.debug_page_table) request->output_kind = OutputKind::kCumulative;
  const SamplingParams sampling = request->sampling;
  const int32_t n = request->n;
  const auto tables = std::make_shared<std::string>();  // of the engine's thread
  const auto id = context.app.engine().submit(
      std::move(*request),
      [&context, line, sampling, n, tables, done](const RequestOutput& output) {
        if (!output.finished) {
          *tables = describe_page_tables(context.app.engine(), line, output.id, n);
          return;
        }
        context.mailbox.post([line, sampling, tables = std::move(*tables), done, output] {
          std::fputs(tables.c_str(), stderr);
          done(plain_answer(line, sampling, output));
        });
      });
  if (!id.ok()) refuse(id.status());
}

// --- the form of OpenAI's batches ---------------------------------------------------------------

struct BatchRoute {
  std::string_view url;
  void (*handler)(server::App& app, const std::shared_ptr<server::Exchange>& exchange);
};

constexpr BatchRoute kRoutes[] = {
    {"/v1/chat/completions", server::handle_chat_completions},
    {"/v1/completions", server::handle_completions},
};

// A request to the server without a network; answered whole.
class BatchExchange final : public server::Exchange {
 public:
  BatchExchange(Mailbox& mailbox, server::HttpRequest request,
                std::function<void(const server::HttpResponse&)> respond)
      : mailbox_(mailbox), request_(std::move(request)), respond_(std::move(respond)) {}

  const server::HttpRequest& request() const override { return request_; }
  void post(std::function<void()> task) override { mailbox_.post(std::move(task)); }
  void on_gone(std::function<void()>) override {}  // a file stays
  void send(server::HttpResponse response) override {
    if (!std::exchange(sent_, true)) respond_(response);
  }
  void begin(server::HttpResponse) override { OCTAVO_CHECK(!"a batch is not streamed"); }
  void write(std::string) override {}
  void end(std::string) override {}

 private:
  Mailbox& mailbox_;
  const server::HttpRequest request_;
  const std::function<void(const server::HttpResponse&)> respond_;
  bool sent_ = false;
};

BatchAnswer openai_answer(const BatchLine& line, const std::string& custom_id,
                          const server::HttpResponse& response) {
  BatchAnswer answer;
  Json body = parse_json(response.body, "").value();
  Json error;
  if (response.status != 200) {
    JsonObject& object = body.as_object().at("error").as_object();
    const std::string message(to_view(object.at("message").as_string()));
    if (response.status == 503) {
      answer.engine_status = unavailable(message);
      return answer;
    }
    object["message"] = format("line {}: {}", line.number, message);
    error = object;
    answer.failed = true;
  }
  const Json* usage = json_find(body, "usage");
  if (usage != nullptr) answer.num_tokens = usage->at("completion_tokens").to_number<int64_t>();
  answer.text = dump_json(JsonObject{{"id", format("batch_req_{}", line.index)},
                                     {"custom_id", custom_id},
                                     {"response",
                                      {{"status_code", response.status},
                                       {"request_id", format("req_{}", line.index)},
                                       {"body", std::move(body)}}},
                                     {"error", std::move(error)}});
  return answer;
}

// The request, after the checks that a server does not make.
Result<server::HttpRequest> read_openai_request(const JsonObject& object,
                                                const BatchRoute*& route) {
  server::Fields fields(object);
  server::HttpRequest request;
  request.method = "POST";
  fields.read("method", request.method);
  fields.read("url", request.path);
  const JsonObject* body = fields.read_object("body");
  fields.find("custom_id");
  if (body == nullptr) fields.fail("body", "is missing");
  if (request.method != "POST") fields.fail("method", "must be POST");
  for (const BatchRoute& one : kRoutes) {
    if (one.url == request.path) route = &one;
  }
  if (route == nullptr) {
    fields.fail("url", format("must be {} or {}", kRoutes[0].url, kRoutes[1].url));
  }
  OCTAVO_TRY(fields.finish());
  const Json* stream = json_find(*body, "stream");
  if (stream != nullptr && stream->is_bool() && stream->get_bool()) {
    return invalid_argument("body.stream is not possible: answers are lines of a file");
  }
  request.body = dump_json(*body);
  return request;
}

void answer_openai(const BatchContext& context, const BatchLine& line, const JsonObject& object,
                   const BatchAnswerFn& done) {
  std::string custom_id;
  server::Fields fields(object);
  fields.read("custom_id", custom_id);
  if (custom_id.empty()) fields.fail("custom_id", "is missing");
  if (!fields.status().ok()) return done(plain_failure(line, fields.status()));
  const auto respond = [line, custom_id, done](const server::HttpResponse& response) {
    done(openai_answer(line, custom_id, response));
  };
  const BatchRoute* route = nullptr;
  auto request = read_openai_request(object, route);
  if (!request.ok()) return respond(server::error_response(request.status()));
  const auto exchange =
      std::make_shared<BatchExchange>(context.mailbox, std::move(*request), respond);
  try {
    route->handler(context.app, exchange);
  } catch (const std::exception& error) {
    exchange->send(server::error_response(internal_error(error.what())));
  }
}

}  // namespace

void answer_line(const BatchContext& context, const BatchLine& line, const BatchAnswerFn& done) {
  if (line.too_long) {
    return done(plain_failure(line, invalid_argument("the line is too long")));
  }
  auto parsed = parse_json(line.text, "the request");
  if (!parsed.ok()) {
    return done(plain_failure(line, invalid_argument(parsed.status().message())));
  }
  if (!parsed->is_object()) {
    return done(plain_failure(line, invalid_argument("the request must be a JSON object")));
  }
  const JsonObject& object = parsed->get_object();
  const bool is_openai = object.contains("custom_id") || object.contains("url");
  (is_openai ? answer_openai : answer_plain)(context, line, object, done);
}

}  // namespace octavo::cli
