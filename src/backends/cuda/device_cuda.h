// One GPU as a Device. Memory comes from a pool that keeps what is freed for the next allocation.
// Errors of the device throw DeviceError; a lack of memory is a Status.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/graph.h"
#include "backends/cuda/stream.h"
#include "tensor/device.h"

namespace octavo::backends::cuda {

struct DeviceProperties {
  std::string name;            // "NVIDIA H200"
  int compute_capability = 0;  // 90 for sm_90
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
};

// kNotFound where there is no such GPU or no driver.
Result<DeviceProperties> device_properties(int index);

struct MemoryInfo {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

class CudaDevice : public Device {
 public:
  // The GPU `index`, which lives as long as the process. kUnsupported for one older than sm_80.
  static Result<CudaDevice*> open(int index);
  ~CudaDevice() override;

  std::string_view name() const override { return name_; }
  bool host_accessible() const override { return false; }

  // Work on the memory must have ended before its last owner goes, as with host memory. Aligned to
  // 256 bytes.
  Result<Buffer> allocate(int64_t size_bytes, std::string_view what) override;

  // Both wait for what is in the device's stream, and until the bytes have arrived.
  void copy_to_device(void* device_dst, const void* host_src, int64_t size_bytes) override;
  void copy_to_host(void* host_dst, const void* device_src, int64_t size_bytes) override;
  // In the device's stream; does not wait.
  void copy_on_device(void* device_dst, const void* device_src, int64_t size_bytes) override;

  void synchronize() override { stream_.synchronize(); }

  // Makes the device the calling thread's meanwhile, and that thread the only one; a DeviceError or
  // OpError becomes its Status.
  Status run(const std::function<Status()>& work) override;

  // The second call with a key makes a graph of the work, further ones launch it.
  Status run_recorded(const std::vector<int64_t>& key,
                      const std::function<Status()>& work) override;
  // Where memory that recorded work uses is no longer there.
  void forget_records() { records_.clear(); }

  int64_t available_bytes() const override { return memory().free_bytes; }

  // It stays in memory: only as much as is needed.
  Result<Buffer> allocate_pinned(int64_t size_bytes, std::string_view what) override;
  void copy_pinned_to_device(void* device_dst, const void* host_src, int64_t size_bytes) override;
  void copy_to_pinned(void* host_dst, const void* device_src, int64_t size_bytes) override;

  // Free memory, with what the pool has kept.
  MemoryInfo memory() const;

  int index() const { return index_; }
  const DeviceProperties& properties() const { return properties_; }
  cudaStream_t stream() const { return stream_.get(); }  // where all ops run

 private:
  CudaDevice(int index, DeviceProperties properties);

  int index_;
  DeviceProperties properties_;
  std::string name_;
  Stream stream_;
  cudaMemPool_t pool_ = nullptr;
  std::recursive_mutex mutex_;                                    // held within run()
  std::map<std::vector<int64_t>, std::optional<Graph>> records_;  // null: has run once
};

// Makes a device the calling thread's, and the one before again at the end of the scope.
class DeviceScope {
 public:
  explicit DeviceScope(int index);
  ~DeviceScope() { cudaSetDevice(before_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

}  // namespace octavo::backends::cuda
