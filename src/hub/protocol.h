// The hub's protocol as pure functions: URLs, what answers hold, and what a person is told of an
// answer that refuses. Answers come from outside; all of them is checked here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hub/http.h"
#include "hub/settings.h"

namespace octavo::hub {

struct RepoInfo {
  std::string commit;              // is_commit_id
  std::vector<std::string> files;  // is_safe_path, sorted
};

struct FileInfo {
  std::string etag;  // the name of its content; fit for a file name
  int64_t size_bytes = 0;
};

// What a request is about, for messages.
struct Subject {
  std::string repo;
  std::string revision;
  std::string file;  // "": the repository
};

std::string repo_info_url(const std::string& endpoint, const Subject& subject);
std::string file_url(const std::string& endpoint, const Subject& subject);

Result<RepoInfo> parse_repo_info(std::string_view text, const std::string& url);

// From the headers of an answer about a file: X-Linked-Etag and X-Linked-Size of one that is kept
// elsewhere, else ETag and Content-Length.
Result<FileInfo> parse_file_info(const HttpResponse& response, const Subject& subject);
bool has_linked_file(const HttpResponse& response);

// The error for an answer that is not 2xx, or for none: what it means and what to do.
Status describe_failure(const HttpResponse& response, const HubSettings& settings,
                        const Subject& subject);

}  // namespace octavo::hub
