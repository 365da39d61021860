#include "hub/hub.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/format.h"
#include "hub/blob_writer.h"
#include "hub/client.h"
#include "hub/file_lock.h"
#include "hub/select_files.h"

namespace octavo::hub {
namespace {

namespace fs = std::filesystem;

// Downloads at once. One connection rarely fills a line, more than a few make the hub refuse some.
constexpr size_t kMaxConnections = 4;

// The index of a model with 100,000 tensors takes 10 MB.
constexpr uintmax_t kMaxIndexBytes = 256 << 20;

Result<std::string> read_index(const std::string& snapshot, FileNames names) {
  if (std::find(names.begin(), names.end(), kWeightIndexFile) == names.end()) return std::string();
  const std::string path = format("{}/{}", snapshot, kWeightIndexFile);
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return not_found(format("{}: {}", path, error.message()));
  if (size > kMaxIndexBytes) return data_loss(format("{}: {} bytes are no index", path, size));
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// One run of Hub::pull, after which nothing of it is left.
class Pull {
 public:
  Pull(const HubSettings& settings, const Cache& cache, Subject subject,
       const PullProgress& progress)
      : settings_(settings), cache_(cache), subject_(std::move(subject)), progress_(progress) {
    for (size_t i = 0; i < kMaxConnections; ++i) {
      clients_.push_back(std::make_unique<HubClient>(settings_, stop_));
    }
  }

  Result<std::string> run(const ModelName& name) {
    const RepoInfo repo = OCTAVO_TRY(clients_[0]->repo_info(subject_));
    const std::string revision = subject_.revision;
    subject_.revision = repo.commit;
    const std::string snapshot = cache_.snapshot_path(subject_.repo, repo.commit);
    std::string path = snapshot;
    OCTAVO_TRY(cache_.create_folders(subject_.repo));
    if (name.file.empty() && has_safetensors(repo.files)) {
      OCTAVO_TRY(fetch(select_description(repo.files)));
      const std::string index = OCTAVO_TRY(read_index(snapshot, repo.files));
      OCTAVO_TRY(fetch(OCTAVO_TRY(select_weights(repo.files, index, name.repo))));
    } else {
      const auto parts = OCTAVO_TRY(select_gguf(repo.files, name.file, name.repo));
      OCTAVO_TRY(fetch(parts));
      path += "/" + parts[0];
    }
    // Last, so that a revision never names a snapshot that is less whole than the one before.
    OCTAVO_TRY(cache_.set_ref(subject_.repo, revision, repo.commit));
    return path;
  }

 private:
  Subject about(const std::string& file) const { return {subject_.repo, subject_.revision, file}; }

  // Brings those of `files` that the snapshot lacks.
  Status fetch(std::vector<std::string> files) {
    const std::vector<std::string> there = cache_.files(subject_.repo, subject_.revision);
    std::erase_if(files, [&](const std::string& file) {
      return std::binary_search(there.begin(), there.end(), file);
    });
    std::vector<FileInfo> infos(files.size());
    OCTAVO_TRY(for_each(files.size(), [&](HubClient& client, size_t i) -> Status {
      infos[i] = OCTAVO_TRY(client.file_info(about(files[i])));
      return {};
    }));
    for (const FileInfo& info : infos) total_bytes_ += info.size_bytes;
    OCTAVO_TRY(check_space(infos));
    return for_each(files.size(), [&](HubClient& client, size_t i) {
      return fetch_file(client, files[i], infos[i]);
    });
  }

  Status check_space(const std::vector<FileInfo>& infos) const {
    int64_t needed = 0;
    for (const FileInfo& info : infos) {
      const std::string blob = cache_.blob_path(subject_.repo, info.etag);
      std::error_code ignored;
      if (fs::exists(blob, ignored)) continue;
      const uintmax_t begun = fs::file_size(blob + ".incomplete", ignored);
      needed += info.size_bytes - (ignored ? 0 : static_cast<int64_t>(begun));
    }
    std::error_code unknown;
    const fs::space_info space = fs::space(cache_.folder(), unknown);
    if (unknown || needed <= static_cast<int64_t>(space.available)) return {};
    return resource_exhausted(
        format("{}: {} MB are still to be downloaded, but {} has room for {} MB", subject_.repo,
               needed / 1000000, cache_.folder(), space.available / 1000000));
  }

  Status fetch_file(HubClient& client, const std::string& file, const FileInfo& info) {
    const std::string blob = cache_.blob_path(subject_.repo, info.etag);
    const auto lock = OCTAVO_TRY(FileLock::acquire(cache_.lock_path(subject_.repo, info.etag),
                                                   [&] { return check_stop(); }));
    std::error_code error;
    if (const auto size = fs::file_size(blob, error);
        !error && static_cast<int64_t>(size) == info.size_bytes) {
      OCTAVO_TRY(advance(info.size_bytes));
    } else {
      OCTAVO_TRY(fetch_blob(client, file, info, blob));
    }
    return cache_.link(subject_.repo, subject_.revision, file, info.etag);
  }

  Status fetch_blob(HubClient& client, const std::string& file, const FileInfo& info,
                    const std::string& blob) {
    const auto writer =
        OCTAVO_TRY(BlobWriter::open(blob, info, format("{}: {}", subject_.repo, file),
                                    [&](int64_t bytes) { return advance(bytes); }));
    while (true) {
      const bool resumed = writer->resumed();
      if (!writer->complete() && !OCTAVO_TRY(client.download(about(file), *writer))) {
        OCTAVO_TRY(writer->restart());
        continue;
      }
      if (OCTAVO_TRY(writer->finish())) return {};
      if (resumed) continue;  // what an earlier run left may have been wrong
      std::error_code ignored;
      fs::remove(blob + ".incomplete", ignored);
      return data_loss(format(
          "{}: {}: what came has another digest than the hub names ({}): it was changed on the way",
          subject_.repo, file, info.etag));
    }
  }

  Status check_stop() const { return stop_ ? cancelled("another download failed") : Status(); }

  Status advance(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_bytes_ += bytes;
    if (progress_) progress_(done_bytes_, total_bytes_);
    return check_stop();
  }

  // Calls fn(client, i) for each i below n on threads; the first error ends all and is returned.
  template <typename Fn>
  Status for_each(size_t n, const Fn& fn) {
    std::atomic<size_t> next = 0;
    Status first_error;
    const auto note = [&](Status status) {
      const std::lock_guard lock(mutex_);
      if (!stop_.exchange(true)) first_error = std::move(status);
    };
    const auto work = [&](HubClient& client) {
      try {
        for (size_t i; !stop_ && (i = next++) < n;) {
          if (Status status = fn(client, i); !status.ok()) note(std::move(status));
        }
      } catch (const std::exception& error) {
        note(internal_error(format("{}: {}", subject_.repo, error.what())));
      }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t t = 1; t < std::min(n, clients_.size()); ++t) {
        threads.emplace_back([&work, &client = *clients_[t]] { work(client); });
      }
      work(*clients_[0]);
    }
    return first_error;
  }

  const HubSettings& settings_;
  const Cache& cache_;
  Subject subject_;  // its revision is the commit once that is known
  const PullProgress& progress_;
  std::atomic<bool> stop_ = false;
  std::vector<std::unique_ptr<HubClient>> clients_;  // [thread]
  std::mutex mutex_;                                 // of what follows, and of calling progress_
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
};

Status check_revision(const std::string& revision) {
  if (is_safe_path(revision)) return {};
  return invalid_argument(
      format("'{}' is no revision: it must be a branch, a tag or a commit", revision));
}

}  // namespace

Result<std::string> Hub::find(const ModelName& name, const std::string& revision) const {
  OCTAVO_TRY(check_revision(revision));
  const auto commit = cache_.find_commit(name.repo, revision);
  if (!commit) {
    return not_found(
        format("{} (revision {}) is not in the cache {}", name.repo, revision, cache_.folder()));
  }
  const std::vector<std::string> names = cache_.files(name.repo, *commit);
  std::string path = cache_.snapshot_path(name.repo, *commit);
  if (name.file.empty() && has_safetensors(names)) {
    const std::string index = OCTAVO_TRY(read_index(path, names));
    OCTAVO_TRY(select_weights(names, index, name.repo));
    return path;
  }
  return format("{}/{}", path, OCTAVO_TRY(select_gguf(names, name.file, name.repo))[0]);
}

Result<std::string> Hub::pull(const ModelName& name, const std::string& revision,
                              const PullProgress& progress) {
  OCTAVO_TRY(check_revision(revision));
  if (settings_.offline) {
    auto found = find(name, revision);
    if (found.ok()) return found;
    return not_found(format("{}; HF_HUB_OFFLINE forbids to download it", found.status().message()));
  }
  Pull pull(settings_, cache_, {name.repo, revision, ""}, progress);
  return pull.run(name);
}

}  // namespace octavo::hub
