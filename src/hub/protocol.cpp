#include "hub/protocol.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "hub/model_name.h"

namespace octavo::hub {
namespace {

constexpr size_t kMaxEtagBytes = 128;

// Eight times what the hub lets one file have; sums of them stay within 64 bits.
constexpr int64_t kMaxFileBytes = int64_t{1} << 42;

// "abc", W/"abc" -> abc
std::string_view unquoted(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return etag;
}

bool is_file_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxEtagBytes || text.front() == '.') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  });
}

std::string named(const Subject& subject) {
  return subject.file.empty() ? subject.repo : format("{}: {}", subject.repo, subject.file);
}

Status describe_refusal(const HttpResponse& response, const HubSettings& settings,
                        const Subject& subject) {
  const std::string page = format("{}/{}", settings.endpoint, subject.repo);
  if (response.status == 403 || response.header("x-error-code") == "GatedRepo") {
    return invalid_argument(format(
        "{}: the model is gated (HTTP {}): ask for access on {} and set HF_TOKEN to a token of the "
        "account that has it",
        subject.repo, response.status, page));
  }
  if (settings.token.empty()) {
    return invalid_argument(format(
        "{}: the hub does not show it to everybody (HTTP 401): there is no such model, or it is "
        "private or gated, and HF_TOKEN must be set to a token that may read it",
        subject.repo));
  }
  return invalid_argument(format(
      "{}: the hub does not accept the token (HTTP 401): check HF_TOKEN, and whether its account "
      "may read {}",
      subject.repo, page));
}

Status describe_missing(const HttpResponse& response, const HubSettings& settings,
                        const Subject& subject) {
  const std::string_view code = response.header("x-error-code");
  if (code == "RevisionNotFound") {
    return not_found(
        format("{}: there is no revision '{}' of it on the hub", subject.repo, subject.revision));
  }
  if (!subject.file.empty()) {
    return not_found(format("{}: there is no file {} in revision {}", subject.repo, subject.file,
                            subject.revision));
  }
  return not_found(format("{}: there is no such model on {}{}", subject.repo, settings.endpoint,
                          subject.revision == "main" || code == "RepoNotFound"
                              ? ""
                              : format(", or it has no revision '{}'", subject.revision)));
}

}  // namespace

std::string repo_info_url(const std::string& endpoint, const Subject& subject) {
  return format("{}/api/models/{}/revision/{}", endpoint, subject.repo,
                url_escape(subject.revision, false));
}

std::string file_url(const std::string& endpoint, const Subject& subject) {
  return format("{}/{}/resolve/{}/{}", endpoint, subject.repo, url_escape(subject.revision, false),
                url_escape(subject.file, true));
}

Result<RepoInfo> parse_repo_info(std::string_view text, const std::string& url) {
  const Json answer = OCTAVO_TRY(parse_json(text, url));
  RepoInfo info;
  info.commit = OCTAVO_TRY(json_string(answer, "sha", url));
  if (!is_commit_id(info.commit)) {
    return data_loss(format("{}: 'sha' is '{}', which is no commit", url, info.commit));
  }
  for (const Json& sibling : *OCTAVO_TRY(json_array(answer, "siblings", url))) {
    std::string name = OCTAVO_TRY(json_string(sibling, "rfilename", url));
    if (!is_safe_path(name)) {
      return data_loss(format("{}: 'rfilename' is '{}', which leads out of the model", url, name));
    }
    info.files.push_back(std::move(name));
  }
  std::sort(info.files.begin(), info.files.end());
  info.files.erase(std::unique(info.files.begin(), info.files.end()), info.files.end());
  return info;
}

bool has_linked_file(const HttpResponse& response) {
  return !response.header("x-linked-etag").empty() && !response.header("x-linked-size").empty();
}

Result<FileInfo> parse_file_info(const HttpResponse& response, const Subject& subject) {
  const bool linked = has_linked_file(response);
  const std::string_view etag = unquoted(response.header(linked ? "x-linked-etag" : "etag"));
  const std::string_view size = response.header(linked ? "x-linked-size" : "content-length");
  if (!is_file_name(etag)) {
    return data_loss(format("{}: the server gives no usable ETag ('{}'): is HF_ENDPOINT a hub?",
                            named(subject), etag));
  }
  FileInfo info{std::string(etag), 0};
  const auto [end, error] =
      std::from_chars(size.data(), size.data() + size.size(), info.size_bytes);
  if (error != std::errc() || end != size.data() + size.size() || info.size_bytes < 0) {
    return data_loss(
        format("{}: the server does not say how long it is ('{}')", named(subject), size));
  }
  if (info.size_bytes > kMaxFileBytes) {
    return data_loss(format("{}: the server says {} bytes, more than any file of a hub",
                            named(subject), info.size_bytes));
  }
  return info;
}

Status describe_failure(const HttpResponse& response, const HubSettings& settings,
                        const Subject& subject) {
  const std::string_view code = response.header("x-error-code");
  if (!response.failure.empty() && (response.status == 0 || response.ok())) {
    return unsupported(format("{}: {} cannot be reached or broke off: {}", named(subject),
                              settings.endpoint, response.failure));
  }
  if (code == "RepoNotFound" && settings.token.empty()) {
    return not_found(format("{}: there is no such model on {}; if it is private, set HF_TOKEN",
                            subject.repo, settings.endpoint));
  }
  switch (response.status) {
    case 401:
    case 403:
      return describe_refusal(response, settings, subject);
    case 404:
      return describe_missing(response, settings, subject);
    case 429:
      return resource_exhausted(format(
          "{}: the hub has had too many requests (HTTP 429): try again {}", named(subject),
          response.retry_after_s > 0 ? format("in {} seconds", response.retry_after_s) : "later"));
    default:
      return unsupported(format("{}: {} answers HTTP {}{}", named(subject), settings.endpoint,
                                response.status,
                                response.status >= 500 ? ": try again later" : ""));
  }
}

}  // namespace octavo::hub
