// HubClient: asks the hub, following redirects and trying again where that may help. The token goes
// to the hub alone, never to where a redirect leads.
#pragma once

#include <atomic>
#include <string>

#include "hub/http.h"
#include "hub/protocol.h"
#include "hub/settings.h"

namespace octavo::hub {

class HubClient {
 public:
  // Once `stop` is set, what runs ends with kCancelled. Both must outlive the client.
  HubClient(const HubSettings& settings, const std::atomic<bool>& stop);

  Result<RepoInfo> repo_info(const Subject& subject);
  Result<FileInfo> file_info(const Subject& subject);

  // The content of a file, from body.offset() on, into `body`. False: the server has nothing from
  // there on.
  Result<bool> download(const Subject& subject, HttpBody& body);

 private:
  Result<HttpResponse> request(const std::string& url, bool head, HttpBody* body);
  Result<HttpResponse> follow_redirects(const std::string& url, bool head, HttpBody* body);
  Status wait(double seconds) const;

  const HubSettings& settings_;
  const std::atomic<bool>& stop_;
  HttpClient http_;
};

}  // namespace octavo::hub
