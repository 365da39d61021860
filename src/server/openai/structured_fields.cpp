#include "server/openai/structured_fields.h"

#include "base/format.h"

namespace octavo::server {
namespace {

// Collects the demands of one request.
class Demands {
 public:
  explicit Demands(SamplingParams& params) : params_(params) {}

  // An object, or JSON text; `true` and `false` are schemas as well.
  void add_schema(Fields& fields, std::string_view name, const std::string& path) {
    const Json* value = fields.find(name);
    if (value == nullptr) return;
    StructuredOutputs& demand = add(path);
    demand.json =
        value->is_string() ? std::string(to_view(value->get_string())) : dump_json(*value);
  }

  // An empty text asks for nothing.
  void add_text(Fields& fields, std::string_view name, const std::string& path,
                std::optional<std::string> StructuredOutputs::*kind) {
    std::string text;
    fields.read(name, text);
    if (!text.empty()) add(path).*kind = text;
  }

  void add_choice(Fields& fields, std::string_view name, const std::string& path) {
    std::vector<std::string> choices;
    fields.read(name, choices);
    if (fields.find(name) != nullptr && choices.empty()) fields.fail(name, "is empty");
    if (!choices.empty()) add(path).choice = choices;
  }

  void add_json_object(const std::string& path) { add(path).json_object = true; }

  int count() const { return count_; }

  // The error where there is more than one.
  const Status& status() const { return status_; }

 private:
  StructuredOutputs& add(const std::string& path) {
    if (++count_ > 1 && status_.ok()) {
      status_ =
          invalid_argument(format("{} and {} cannot be given together: an answer has one form",
                                  path, params_.structured_outputs->source));
    }
    params_.structured_outputs.emplace();
    params_.structured_outputs->source = path;
    return *params_.structured_outputs;
  }

  SamplingParams& params_;
  int count_ = 0;
  Status status_;
};

void read_response_format(Fields& fields, Demands& demands) {
  const JsonObject* object = fields.read_object("response_format");
  if (object == nullptr) return;
  Fields inner(*object, "response_format.");
  std::string type;
  inner.read("type", type);
  if (type == "json_object" && inner.find("schema") != nullptr) {  // llama.cpp's form
    demands.add_schema(inner, "schema", "response_format.schema");
  } else if (type == "json_object") {
    demands.add_json_object("response_format.type");
  } else if (type == "json_schema") {
    const JsonObject* wrapper = inner.read_object("json_schema");
    if (wrapper == nullptr) inner.fail("json_schema", "is missing");
    Fields schema(wrapper == nullptr ? *object : *wrapper, "response_format.json_schema.");
    if (wrapper != nullptr && schema.find("schema") == nullptr) schema.fail("schema", "is missing");
    demands.add_schema(schema, "schema", "response_format.json_schema.schema");
    if (!schema.status().ok()) inner.fail(schema.status());
  } else if (type != "text") {
    inner.fail("type", "must be text, json_object or json_schema");
  }
  if (!inner.status().ok()) fields.fail(inner.status());
}

void read_vllm_fields(Fields& fields, Demands& demands) {
  const JsonObject* object = fields.read_object("structured_outputs");
  if (object == nullptr) return;
  Fields inner(*object, "structured_outputs.");
  const int before = demands.count();
  demands.add_schema(inner, "json", "structured_outputs.json");
  demands.add_text(inner, "regex", "structured_outputs.regex", &StructuredOutputs::regex);
  demands.add_choice(inner, "choice", "structured_outputs.choice");
  demands.add_text(inner, "grammar", "structured_outputs.grammar", &StructuredOutputs::grammar);
  bool json_object = false;
  inner.read("json_object", json_object);
  if (json_object) demands.add_json_object("structured_outputs.json_object");
  for (const char* name : {"structural_tag", "whitespace_pattern"}) {
    if (inner.find(name) != nullptr) inner.fail(name, "is not supported");
  }
  bool no_whitespace = false;
  inner.read("disable_any_whitespace", no_whitespace);
  if (no_whitespace) inner.fail("disable_any_whitespace", "is not supported");
  if (demands.count() == before && inner.status().ok()) {
    fields.fail("structured_outputs", "must have one of json, regex, choice, grammar, json_object");
  }
  if (!inner.status().ok()) fields.fail(inner.status());
}

}  // namespace

void read_structured_outputs(Fields& fields, SamplingParams& params) {
  Demands demands(params);
  read_response_format(fields, demands);
  read_vllm_fields(fields, demands);
  demands.add_schema(fields, "guided_json", "guided_json");
  demands.add_schema(fields, "json_schema", "json_schema");
  demands.add_text(fields, "guided_regex", "guided_regex", &StructuredOutputs::regex);
  demands.add_choice(fields, "guided_choice", "guided_choice");
  demands.add_text(fields, "guided_grammar", "guided_grammar", &StructuredOutputs::grammar);
  demands.add_text(fields, "grammar", "grammar", &StructuredOutputs::grammar);
  if (fields.find("guided_whitespace_pattern") != nullptr) {
    fields.fail("guided_whitespace_pattern", "is not supported");
  }
  if (!demands.status().ok()) fields.fail(demands.status());
}

}  // namespace octavo::server
