#include "hub/cache.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/check.h"
#include "base/format.h"
#include "hub/file_lock.h"
#include "hub/model_name.h"

namespace octavo::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";

// "org/name" -> "models--org--name"
std::string folder_name(const std::string& repo) {
  std::string name(kPrefix);
  for (const char c : repo) name += c == '/' ? std::string("--") : std::string(1, c);
  return name;
}

// The way back; "" for other folders.
std::string repo_of_folder(std::string_view name) {
  if (!name.starts_with(kPrefix)) return "";
  name.remove_prefix(kPrefix.size());
  const size_t dashes = name.find("--");
  if (dashes == std::string_view::npos) return "";
  std::string repo = format("{}/{}", name.substr(0, dashes), name.substr(dashes + 2));
  return is_repo_name(repo) ? repo : "";
}

// The commit that a file below refs/ holds; "" where it holds none.
std::string read_commit(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  return is_commit_id(text) ? text : "";
}

// Calls fn(entry) for all below a folder; stops where the file system does not answer.
template <typename Fn>
void for_each_below(const fs::path& folder, const Fn& fn) {
  std::error_code error;
  for (fs::recursive_directory_iterator next(folder, error), end; !error && next != end;
       next.increment(error)) {
    fn(*next);
  }
}

Status failed(const char* what, const fs::path& path, const std::error_code& error) {
  return internal_error(format("cannot {} {}: {}", what, path.string(), error.message()));
}

int64_t size_below(const fs::path& folder) {
  int64_t sum = 0;
  for_each_below(folder, [&](const fs::directory_entry& entry) {
    std::error_code error;
    if (entry.is_symlink(error) || !entry.is_regular_file(error)) return;
    sum += static_cast<int64_t>(entry.file_size(error));
  });
  return sum;
}

}  // namespace

std::string Cache::repo_path(const std::string& repo) const {
  return format("{}/{}", folder_, folder_name(repo));
}

std::string Cache::blob_path(const std::string& repo, const std::string& etag) const {
  return format("{}/blobs/{}", repo_path(repo), etag);
}

std::string Cache::lock_path(const std::string& repo, const std::string& etag) const {
  return format("{}/.locks/{}/{}.lock", folder_, folder_name(repo), etag);
}

std::string Cache::snapshot_path(const std::string& repo, const std::string& commit) const {
  return format("{}/snapshots/{}", repo_path(repo), commit);
}

Status Cache::create_folders(const std::string& repo) const {
  for (const char* name : {"blobs", "refs", "snapshots"}) {
    const fs::path path = fs::path(repo_path(repo)) / name;
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return failed("make the folder", path, error);
  }
  return {};
}

std::optional<std::string> Cache::find_commit(const std::string& repo,
                                              const std::string& revision) const {
  std::string commit = is_commit_id(revision)
                           ? revision
                           : read_commit(fs::path(repo_path(repo)) / "refs" / revision);
  std::error_code ignored;
  if (commit.empty() || !fs::is_directory(snapshot_path(repo, commit), ignored)) return {};
  return commit;
}

Status Cache::set_ref(const std::string& repo, const std::string& revision,
                      const std::string& commit) const {
  if (revision == commit) return {};
  const fs::path path = fs::path(repo_path(repo)) / "refs" / revision;
  if (read_commit(path) == commit) return {};
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const fs::path temporary = format("{}.{}", path.string(), getpid());
  std::ofstream file(temporary);
  file << commit;
  file.close();
  if (!file) return internal_error(format("cannot write {}", temporary.string()));
  fs::rename(temporary, path, error);
  return error ? failed("write", path, error) : Status();
}

std::vector<std::string> Cache::files(const std::string& repo, const std::string& commit) const {
  const fs::path snapshot = snapshot_path(repo, commit);
  std::vector<std::string> names;
  for_each_below(snapshot, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (!entry.is_regular_file(ignored)) return;  // of a link: what it leads to
    names.push_back(entry.path().lexically_relative(snapshot).string());
  });
  std::sort(names.begin(), names.end());
  return names;
}

Status Cache::link(const std::string& repo, const std::string& commit, const std::string& file,
                   const std::string& etag) const {
  const fs::path path = fs::path(snapshot_path(repo, commit)) / file;
  const fs::path target = fs::path(blob_path(repo, etag)).lexically_relative(path.parent_path());
  std::error_code error;
  if (fs::read_symlink(path, error) == target && fs::exists(path, error)) return {};
  fs::create_directories(path.parent_path(), error);
  if (error) return failed("make the folder", path.parent_path(), error);
  const fs::path temporary = format("{}.{}.link", path.string(), getpid());
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  if (error) return failed("make the link", path, error);
  fs::rename(temporary, path, error);
  return error ? failed("make the link", path, error) : Status();
}

std::vector<CachedModel> Cache::list_repo(const std::string& repo) const {
  std::map<std::string, std::vector<std::string>> names;  // by commit
  const fs::path refs = fs::path(repo_path(repo)) / "refs";
  for_each_below(refs, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (!entry.is_regular_file(ignored)) return;
    names[read_commit(entry.path())].push_back(entry.path().lexically_relative(refs).string());
  });
  std::vector<CachedModel> models;
  std::error_code error;
  for (fs::directory_iterator next(fs::path(repo_path(repo)) / "snapshots", error), end;
       !error && next != end; next.increment(error)) {
    CachedModel model{.repo = repo, .commit = next->path().filename().string()};
    if (!is_commit_id(model.commit)) continue;
    model.path = snapshot_path(repo, model.commit);
    model.revisions = names[model.commit];
    std::sort(model.revisions.begin(), model.revisions.end());
    for (const std::string& file : files(repo, model.commit)) {
      std::error_code ignored;
      const auto size = fs::file_size(fs::path(model.path) / file, ignored);
      if (!ignored) model.size_bytes += static_cast<int64_t>(size);
    }
    models.push_back(std::move(model));
  }
  return models;
}

Result<std::vector<CachedModel>> Cache::list() const {
  std::vector<CachedModel> models;
  std::error_code error;
  fs::directory_iterator next(folder_, error);
  if (error == std::errc::no_such_file_or_directory) return models;
  if (error) return failed("read", folder_, error);
  for (const fs::directory_iterator end; !error && next != end; next.increment(error)) {
    const std::string repo = repo_of_folder(next->path().filename().string());
    if (repo.empty()) continue;
    for (CachedModel& model : list_repo(repo)) models.push_back(std::move(model));
  }
  if (error) return failed("read", folder_, error);
  std::sort(models.begin(), models.end(), [](const CachedModel& a, const CachedModel& b) {
    return a.repo != b.repo ? a.repo < b.repo : a.commit < b.commit;
  });
  return models;
}

Status Cache::check_has(const std::string& repo) const {
  std::error_code error;
  if (fs::is_directory(repo_path(repo), error)) return {};
  return not_found(format("{} is not in the cache ({})", repo, folder_));
}

Result<int64_t> Cache::remove(const std::string& repo) const {
  OCTAVO_TRY(check_has(repo));
  const fs::path path = repo_path(repo);
  std::error_code error;
  const fs::path locks = fs::path(lock_path(repo, "any")).parent_path();
  bool busy = false;
  for_each_below(locks, [&](const fs::directory_entry& entry) {
    busy = busy || FileLock::is_held(entry.path().string());
  });
  if (busy) {
    return resource_exhausted(format("{} is being downloaded: end that first", repo));
  }
  const int64_t size_bytes = size_below(path);
  fs::remove_all(path, error);
  if (error) return failed("remove", path, error);
  fs::remove_all(locks, error);
  return size_bytes;
}

}  // namespace octavo::hub
