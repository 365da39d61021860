// Status and Result<T>: how every fallible call of octavo reports failure. An operating error (a
// bad file, a bad request, no memory) is a value with a code and a message that names the file,
// tensor, field or flag; nothing in the library prints, exits or throws for it.
#pragma once

#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace octavo {

enum class StatusCode {
  kOk,
  kInvalidArgument,    // the caller's value is wrong: a flag, a field of a request
  kNotFound,           // no such file, model, tensor
  kDataLoss,           // a file is truncated, corrupt or contradicts itself
  kUnsupported,        // well-formed, but octavo cannot do it
  kResourceExhausted,  // memory, blocks, context length, queue
  kCancelled,          // the caller stopped it
  kDeadlineExceeded,   // it took longer than the caller allowed
  kUnavailable,        // not now: shutting down, or stopped after an error
  kInternal,           // a bug, or the operating system failed unexpectedly
};

// The code's name in lower case with underscores, e.g. "invalid_argument".
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
inline Status not_found(std::string m) {
  return {StatusCode::kNotFound, std::move(m)};
}
inline Status data_loss(std::string m) {
  return {StatusCode::kDataLoss, std::move(m)};
}
inline Status unsupported(std::string m) {
  return {StatusCode::kUnsupported, std::move(m)};
}
inline Status resource_exhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}
inline Status cancelled(std::string m) {
  return {StatusCode::kCancelled, std::move(m)};
}
inline Status deadline_exceeded(std::string m) {
  return {StatusCode::kDeadlineExceeded, std::move(m)};
}
inline Status unavailable(std::string m) {
  return {StatusCode::kUnavailable, std::move(m)};
}
inline Status internal_error(std::string m) {
  return {StatusCode::kInternal, std::move(m)};
}

// Either a value or a Status that is not ok. value() on an error ends the process: check ok()
// first, or use OCTAVO_TRY inside the library.
template <typename T>
class [[nodiscard]] Result {
 public:
  template <typename U = T>
    requires(std::is_convertible_v<U, T> && !std::is_same_v<std::remove_cvref_t<U>, Status>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    if (std::get<1>(state_).ok()) std::abort();
  }

  bool ok() const { return state_.index() == 0; }
  const Status& status() const {
    static const Status ok_status;
    return ok() ? ok_status : std::get<1>(state_);
  }
  T& value() & { return ok() ? std::get<0>(state_) : (std::abort(), std::get<0>(state_)); }
  const T& value() const& {
    return ok() ? std::get<0>(state_) : (std::abort(), std::get<0>(state_));
  }
  T&& value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace octavo
