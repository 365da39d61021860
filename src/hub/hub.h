// Hub: names of models to files on this machine. Downloads with the Hugging Face protocol into the
// cache that its own library uses, resuming what an earlier run began.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hub/cache.h"
#include "hub/model_name.h"
#include "hub/settings.h"

namespace octavo::hub {

inline constexpr const char* kDefaultRevision = "main";

// Bytes that are there and that there will be, of all files. One call at a time, from any thread.
using PullProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

class Hub {
 public:
  explicit Hub(HubSettings settings)
      : settings_(std::move(settings)), cache_(settings_.cache_folder) {}

  const Cache& cache() const { return cache_; }

  // The path of a model that is whole in the cache: a GGUF file (the first part of a split one) or
  // a folder. kNotFound where it is not.
  Result<std::string> find(const ModelName& name, const std::string& revision) const;

  // The same after the hub was asked what the revision is now and what is missing was downloaded.
  Result<std::string> pull(const ModelName& name, const std::string& revision,
                           const PullProgress& progress);

 private:
  HubSettings settings_;
  Cache cache_;
};

}  // namespace octavo::hub
