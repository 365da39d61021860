#include "hub/http.h"

#include "base/check.h"
#include "base/format.h"
#include "hub/curl.h"

namespace octavo::hub {
namespace {

// Of the text of an error page: what is kept, and what may come at all.
constexpr size_t kMaxErrorTextBytes = 16 << 10;
constexpr int64_t kMaxDiscardedBytes = 1 << 20;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// A request on its way: what libcurl's callbacks see.
struct Transfer {
  CURL* handle;
  HttpBody* body;
  HttpResponse response;
  bool begun = false;
  int64_t discarded = 0;
  Status error;

  Status begin() {
    begun = true;
    return body == nullptr ? Status() : body->begin(response);
  }

  Status take(std::string_view bytes) {
    if (!response.ok() || body == nullptr) {
      discarded += static_cast<int64_t>(bytes.size());
      response.error_text += bytes.substr(0, kMaxErrorTextBytes - response.error_text.size());
      return discarded <= kMaxDiscardedBytes ? Status() : data_loss("the answer does not end");
    }
    if (!begun) OCTAVO_TRY(begin());
    return body->write(bytes);
  }
};

// libcurl is C: no exception may pass through it.
template <typename Fn>
size_t guarded(Transfer& transfer, size_t size, const Fn& fn) {
  try {
    transfer.error = fn();
  } catch (const std::bad_alloc&) {
    transfer.error = resource_exhausted("out of memory");
  } catch (const std::exception& error) {
    transfer.error = internal_error(error.what());
  }
  return transfer.error.ok() ? size : 0;
}

size_t on_header(char* data, size_t unit, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  return guarded(transfer, unit * count, [&]() -> Status {
    const std::string_view line(data, unit * count);
    if (line.starts_with("HTTP/")) {
      transfer.response.headers.clear();  // those before belong to a proxy or to a 1xx answer
      long status = 0;
      curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
      transfer.response.status = static_cast<int>(status);
      return {};
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return {};
    std::string name(line.substr(0, colon));
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    transfer.response.headers[name] = trimmed(line.substr(colon + 1));
    return {};
  });
}

size_t on_body(char* data, size_t unit, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  return guarded(transfer, unit * count, [&] { return transfer.take({data, unit * count}); });
}

int on_progress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<const Transfer*>(context);
  return transfer.body == nullptr || transfer.body->wanted() ? 0 : 1;
}

}  // namespace

std::string_view HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

struct HttpClient::Impl {
  std::unique_ptr<CURL, CurlDeleter> handle;
  long timeout_s;
};

HttpClient::HttpClient(int timeout_s) : impl_(std::make_unique<Impl>()) {
  init_curl();
  impl_->handle.reset(curl_easy_init());
  impl_->timeout_s = timeout_s;
}
HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::perform(const HttpRequest& request, HttpBody* body) {
  CURL* const handle = impl_->handle.get();
  if (handle == nullptr) return internal_error("libcurl does not start");
  curl_easy_reset(handle);
  Transfer transfer{.handle = handle, .body = body};
  std::unique_ptr<curl_slist, CurlDeleter> headers(
      curl_slist_append(nullptr, "Accept-Encoding: identity"));
  if (!request.token.empty() && headers != nullptr) {
    // The list keeps its head: a failure to append leaves it as it was.
    curl_slist_append(headers.get(), ("Authorization: Bearer " + request.token).c_str());
  }
  if (!request.json_body.empty() && headers != nullptr) {
    curl_slist_append(headers.get(), "Content-Type: application/json");
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.json_body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.json_body.c_str());
  }
  set_common_options(handle);
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, impl_->timeout_s);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  if (request.head) curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
  const std::string range = format("{}-", request.range_begin);
  if (request.range_begin > 0) curl_easy_setopt(handle, CURLOPT_RANGE, range.c_str());

  const CURLcode code = curl_easy_perform(handle);
  if (!transfer.error.ok()) return transfer.error;
  HttpResponse& response = transfer.response;
  if (code != CURLE_OK) {
    response.failure = curl_easy_strerror(code);
  } else if (response.ok() && !transfer.begun) {
    OCTAVO_TRY(transfer.begin());
  }
  const char* redirect = nullptr;
  curl_easy_getinfo(handle, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) response.redirect_url = redirect;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &retry_after);
  response.retry_after_s = retry_after;
  return std::move(response);
}

std::string url_origin(const std::string& url) {
  const std::unique_ptr<CURLU, CurlDeleter> parsed(curl_url());
  if (parsed == nullptr || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    return "";
  }
  const auto part = [&](CURLUPart which) -> std::string {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
    const std::unique_ptr<char, CurlDeleter> owner(text);
    return text;
  };
  return format("{}://{}:{}", part(CURLUPART_SCHEME), part(CURLUPART_HOST), part(CURLUPART_PORT));
}

}  // namespace octavo::hub
