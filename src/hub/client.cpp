#include "hub/client.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/format.h"

namespace octavo::hub {
namespace {

constexpr int kMaxRedirects = 10;

// Attempts in a row that bring nothing new; the waits between them are 0.5, 1, 2 and 4 seconds.
constexpr int kMaxAttempts = 5;
constexpr double kFirstWaitS = 0.5;

// A server that wants a longer pause than this gets an error instead: nobody waits for that at a
// terminal without knowing why.
constexpr int64_t kMaxRetryAfterS = 120;

// The listing of a repository with 100,000 files takes 10 MB.
constexpr size_t kMaxAnswerBytes = 32 << 20;

// An answer as text.
class TextBody final : public HttpBody {
 public:
  explicit TextBody(std::string url) : url_(std::move(url)) {}
  Status begin(const HttpResponse&) override {
    text_.clear();
    return {};
  }
  Status write(std::string_view bytes) override {
    if (bytes.size() > kMaxAnswerBytes - text_.size()) {
      return data_loss(format("{}: the answer is longer than {} bytes", url_, kMaxAnswerBytes));
    }
    text_ += bytes;
    return {};
  }
  const std::string& text() const { return text_; }

 private:
  std::string url_;
  std::string text_;
};

bool may_retry(const HttpResponse& response, const HttpBody* body) {
  if (response.status == 429 || response.status >= 500) return true;
  if (!response.failure.empty()) return true;
  return response.ok() && body != nullptr && !body->complete();
}

}  // namespace

HubClient::HubClient(const HubSettings& settings, const std::atomic<bool>& stop)
    : settings_(settings), stop_(stop), http_(settings.timeout_s) {}

Status HubClient::wait(double seconds) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (stop_) return cancelled("another download failed");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return {};
}

Result<HttpResponse> HubClient::follow_redirects(const std::string& url, bool head,
                                                 HttpBody* body) {
  HttpRequest request{url, settings_.token, head, body == nullptr ? 0 : body->offset()};
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    HttpResponse response = OCTAVO_TRY(http_.perform(request, body));
    if (response.redirect_url.empty()) return response;
    // The hub itself knows what a file is that it keeps elsewhere.
    if (head && has_linked_file(response)) return response;
    const std::string from = url_origin(request.url);
    const std::string to = url_origin(response.redirect_url);
    if (from.starts_with("https:") && !to.starts_with("https:")) {
      return unsupported(format("{}: a redirect leads to {}, which is not encrypted", url, to));
    }
    if (from != to) request.token.clear();
    request.url = response.redirect_url;
  }
  return unsupported(format("{}: more than {} redirects", url, kMaxRedirects));
}

Result<HttpResponse> HubClient::request(const std::string& url, bool head, HttpBody* body) {
  double pause_s = kFirstWaitS;
  int64_t reached = body == nullptr ? 0 : body->offset();
  for (int failures = 0;;) {
    HttpResponse response = OCTAVO_TRY(follow_redirects(url, head, body));
    if (!may_retry(response, body)) return response;
    if (body != nullptr && body->offset() > reached) {
      reached = body->offset();
      failures = 0;
      pause_s = kFirstWaitS;
    }
    if (++failures == kMaxAttempts || response.retry_after_s > kMaxRetryAfterS) {
      if (response.failure.empty() && response.ok()) {
        response.failure = "the connection ends before the file does";
      }
      return response;
    }
    const auto wanted_s = static_cast<double>(response.retry_after_s);
    OCTAVO_TRY(wait(std::max(pause_s, wanted_s)));
    pause_s *= 2;
  }
}

Result<RepoInfo> HubClient::repo_info(const Subject& subject) {
  const std::string url = repo_info_url(settings_.endpoint, subject);
  TextBody body(url);
  const HttpResponse response = OCTAVO_TRY(request(url, false, &body));
  if (!response.ok() || !response.failure.empty()) {
    return describe_failure(response, settings_, subject);
  }
  return parse_repo_info(body.text(), url);
}

Result<FileInfo> HubClient::file_info(const Subject& subject) {
  const HttpResponse response =
      OCTAVO_TRY(request(file_url(settings_.endpoint, subject), true, nullptr));
  const bool linked = !response.redirect_url.empty() && has_linked_file(response);
  if ((!response.ok() && !linked) || !response.failure.empty()) {
    return describe_failure(response, settings_, subject);
  }
  return parse_file_info(response, subject);
}

Result<bool> HubClient::download(const Subject& subject, HttpBody& body) {
  const HttpResponse response =
      OCTAVO_TRY(request(file_url(settings_.endpoint, subject), false, &body));
  if (response.status == 416 && body.offset() > 0) return false;
  if (!response.ok() || !response.failure.empty()) {
    return describe_failure(response, settings_, subject);
  }
  return true;
}

}  // namespace octavo::hub
