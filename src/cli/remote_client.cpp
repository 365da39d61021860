#include "cli/remote_client.h"

#include "base/check.h"
#include "base/format.h"
#include "cli/event_reader.h"

namespace octavo::cli {
namespace {

constexpr int kTimeoutS = 600;               // a long prompt may take its time
constexpr size_t kMaxBodyBytes = 16u << 20;  // of a whole answer

const Json* first_choice(const Json& event) {
  const Json* choices = json_find(event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return nullptr;
  return &choices->get_array()[0];
}

std::string_view string_at(const Json* object, std::string_view key) {
  const Json* value = object == nullptr ? nullptr : json_find(*object, key);
  return value != nullptr && value->is_string() ? to_view(value->get_string()) : "";
}

// The message of an error body, which servers spell in several ways.
std::string error_message(const Json& body) {
  const Json* error = json_find(body, "error");
  if (error != nullptr && error->is_string()) return std::string(to_view(error->get_string()));
  const std::string_view message = string_at(error == nullptr ? &body : error, "message");
  return std::string(message);
}

Status check(const hub::HttpResponse& response, const std::string& url) {
  if (response.status == 0) return unavailable(format("{}: {}", url, response.failure));
  if (!response.ok()) {
    const auto body = parse_json(response.error_text, "the answer");
    const std::string message = body.ok() ? error_message(*body) : "";
    return unavailable(
        format("{} answers {}{}{}", url, response.status, message.empty() ? "" : ": ", message));
  }
  if (response.failure.empty()) return {};
  return unavailable(format("{}: the answer broke off: {}", url, response.failure));
}

class WholeBody final : public hub::HttpBody {
 public:
  Status begin(const hub::HttpResponse&) override { return {}; }
  Status write(std::string_view bytes) override {
    text += bytes;
    return text.size() <= kMaxBodyBytes ? Status() : data_loss("the answer does not end");
  }

  std::string text;
};

// A streamed answer.
class EventBody final : public hub::HttpBody {
 public:
  EventBody(const std::function<bool(std::string_view)>& on_text,
            const std::function<bool()>& is_wanted)
      : on_text_(on_text), is_wanted_(is_wanted) {}

  Status begin(const hub::HttpResponse&) override { return {}; }
  bool wanted() const override { return is_wanted_(); }
  bool complete() const override { return reader_.done(); }

  Status write(std::string_view bytes) override {
    return reader_.read(bytes, [this](std::string_view data) { return take_event(data); });
  }

  std::string text;  // of the answer so far

 private:
  Status take_event(std::string_view data) {
    const Json event = OCTAVO_TRY(parse_json(data, "an event of the answer"));
    if (json_find(event, "error") != nullptr) return unavailable(error_message(event));
    const Json* choice = first_choice(event);
    const Json* delta = choice == nullptr ? nullptr : json_find(*choice, "delta");
    const std::string_view piece =
        delta == nullptr ? string_at(choice, "text") : string_at(delta, "content");
    text += piece;
    const bool go_on = is_wanted_() && (piece.empty() || on_text_(piece));
    return go_on ? Status() : cancelled("nobody wants the rest");
  }

  const std::function<bool(std::string_view)>& on_text_;
  const std::function<bool()>& is_wanted_;
  EventReader reader_;
};

}  // namespace

RemoteClient::RemoteClient(const std::string& url, std::string api_key)
    : base_url_(url), api_key_(std::move(api_key)), http_(kTimeoutS) {
  while (base_url_.ends_with('/')) base_url_.pop_back();
  if (!base_url_.ends_with("/v1")) base_url_ += "/v1";
}

Result<std::string> RemoteClient::first_model() {
  const std::string url = base_url_ + "/models";
  WholeBody body;
  const auto response = OCTAVO_TRY(http_.perform({.url = url, .token = api_key_}, &body));
  OCTAVO_TRY(check(response, url));
  const Json json = OCTAVO_TRY(parse_json(body.text, url));
  const JsonArray& models = *OCTAVO_TRY(json_array(json, "data", url));
  if (models.empty()) return not_found(url + ": no model is served");
  return json_string(models[0], "id", url);
}

Result<std::string> RemoteClient::stream(const std::string& path, JsonObject body,
                                         const std::function<bool(std::string_view)>& on_text,
                                         const std::function<bool()>& is_wanted) {
  const std::string url = base_url_ + path;
  body["stream"] = true;
  EventBody events(on_text, is_wanted);
  const auto response =
      http_.perform({.url = url, .token = api_key_, .json_body = dump_json(body)}, &events);
  if (!is_wanted()) return events.text;
  if (!response.ok() && response.status().code() == StatusCode::kCancelled) return events.text;
  OCTAVO_TRY(response.status());
  OCTAVO_TRY(check(*response, url));
  if (!events.complete()) return unavailable(url + ": the answer broke off");
  return events.text;
}

}  // namespace octavo::cli
