// Cache: the folder that Hugging Face's library and octavo share. Of each model
// models--org--name/ with refs/<revision> (a commit), blobs/<etag> (content) and
// snapshots/<commit>/<file> (links to blobs); locks lie in .locks/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::hub {

struct CachedModel {
  std::string repo;
  std::string commit;
  std::vector<std::string> revisions;  // the names of the commit, e.g. "main"; may be empty
  int64_t size_bytes = 0;              // of its files
  std::string path;                    // the folder of the snapshot
};

class Cache {
 public:
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  std::string blob_path(const std::string& repo, const std::string& etag) const;
  std::string lock_path(const std::string& repo, const std::string& etag) const;
  std::string snapshot_path(const std::string& repo, const std::string& commit) const;

  // Makes the folders of a model.
  Status create_folders(const std::string& repo) const;

  // The commit that a revision (a branch, a tag or a commit) has in the cache.
  std::optional<std::string> find_commit(const std::string& repo,
                                         const std::string& revision) const;
  Status set_ref(const std::string& repo, const std::string& revision,
                 const std::string& commit) const;

  // Files of a snapshot whose content is there, sorted.
  std::vector<std::string> files(const std::string& repo, const std::string& commit) const;

  // Makes a blob a file of a snapshot.
  Status link(const std::string& repo, const std::string& commit, const std::string& file,
              const std::string& etag) const;

  // By name, then commit. A cache that does not exist is empty.
  Result<std::vector<CachedModel>> list() const;

  // An error where nothing of the model is there.
  Status check_has(const std::string& repo) const;

  // Removes all of a model. An error where it is not there or being downloaded. Returns the bytes
  // that became free.
  Result<int64_t> remove(const std::string& repo) const;

 private:
  std::string repo_path(const std::string& repo) const;
  std::vector<CachedModel> list_repo(const std::string& repo) const;

  std::string folder_;
};

}  // namespace octavo::hub
