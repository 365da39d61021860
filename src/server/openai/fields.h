// Fields: the fields of a request's JSON object, read by name and type. The first that is wrong is
// the error, which names it; null counts as not given. Fields that nobody asked for are ignored and
// logged, each name once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo::server {

// The body of a request: an object, whatever its Content-Type says.
Result<JsonObject> parse_body(const std::string& body);

class Fields {
 public:
  // `prefix` starts the names in errors: "stream_options.". `object` must outlive it.
  explicit Fields(const JsonObject& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // The value, or nullptr.
  const Json* find(std::string_view name);

  // Whether the field is there, and null: for the few whose default is another value.
  bool is_null(std::string_view name) const;

  // Leaves `value` alone where the field is not given.
  void read(std::string_view name, bool& value);
  void read(std::string_view name, int64_t& value);
  void read(std::string_view name, int32_t& value);
  void read(std::string_view name, float& value);
  void read(std::string_view name, std::string& value);
  void read(std::string_view name, std::vector<std::string>& value);  // or one string
  void read(std::string_view name, std::vector<TokenId>& value);
  template <typename T>
  void read(std::string_view name, std::optional<T>& value) {
    T given{};
    if (find(name) == nullptr) return;
    read(name, given);
    value = given;
  }

  // The object under `name`, or nullptr.
  const JsonObject* read_object(std::string_view name);

  void fail(std::string_view name, std::string_view why);
  void fail(Status status);

  // The first error.
  const Status& status() const { return status_; }

  // The same, after a log line for what was not asked for.
  Status finish() const;

 private:
  const JsonObject& object_;
  std::string prefix_;
  std::vector<std::string> known_;
  Status status_;
};

}  // namespace octavo::server
