#include "backends/cuda/device_cuda.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "backends/cuda/device_error.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

size_t unsigned_size(int64_t size_bytes) {
  return static_cast<size_t>(size_bytes);
}

int64_t pool_counter(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  uint64_t value = 0;
  check_cuda(cudaMemPoolGetAttribute(pool, attribute, &value), "cudaMemPoolGetAttribute");
  return static_cast<int64_t>(value);
}

// Keeps freed memory: by default the pool gives it back whenever a stream is waited for.
cudaMemPool_t make_pool(int index) {
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = index;
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaMemPoolCreate(&pool, &props), "cudaMemPoolCreate");
  uint64_t threshold = UINT64_MAX;
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
             "cudaMemPoolSetAttribute");
  return pool;
}

}  // namespace

DeviceScope::DeviceScope(int index) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
  check_cuda(cudaSetDevice(index), "cudaSetDevice");
}

Result<DeviceProperties> device_properties(int index) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    cudaGetLastError();
    return not_found(format("cuda:{}: no GPU: {}", index, cudaGetErrorString(error)));
  }
  if (index < 0 || index >= count) {
    return not_found(format("cuda:{}: this machine has {} GPUs", index, count));
  }
  cudaDeviceProp found;
  if (const cudaError_t error = cudaGetDeviceProperties(&found, index); error != cudaSuccess) {
    cudaGetLastError();
    return not_found(format("cuda:{}: {}", index, cudaGetErrorString(error)));
  }
  return DeviceProperties{found.name, 10 * found.major + found.minor, found.multiProcessorCount,
                          static_cast<int64_t>(found.totalGlobalMem), found.l2CacheSize};
}

Result<CudaDevice*> CudaDevice::open(int index) {
  static std::mutex mutex;
  // Never destroyed: buffers may outlive every static object.
  static auto& devices = *new std::map<int, std::unique_ptr<CudaDevice>>();
  const std::lock_guard lock(mutex);
  if (const auto it = devices.find(index); it != devices.end()) return it->second.get();
  const DeviceProperties properties = OCTAVO_TRY(device_properties(index));
  if (properties.compute_capability < 80) {
    return unsupported(format("cuda:{}: {} is sm_{}, octavo needs sm_80 or later", index,
                              properties.name, properties.compute_capability));
  }
  const DeviceScope scope(index);
  std::unique_ptr<CudaDevice> device(new CudaDevice(index, properties));
  return (devices[index] = std::move(device)).get();
}

CudaDevice::CudaDevice(int index, DeviceProperties properties)
    : index_(index),
      properties_(std::move(properties)),
      name_(format("cuda:{}", index)),
      pool_(make_pool(index)) {}

CudaDevice::~CudaDevice() {
  cudaMemPoolDestroy(pool_);
}

Result<Buffer> CudaDevice::allocate(int64_t size_bytes, std::string_view what) {
  if (size_bytes < 0) return invalid_argument(format("{}: {} bytes asked for", what, size_bytes));
  if (size_bytes == 0) return Buffer{};
  const DeviceScope scope(index_);
  void* address = nullptr;
  cudaError_t error = cudaErrorMemoryAllocation;
  if (size_bytes <= properties_.memory_bytes) {
    error = cudaMallocFromPoolAsync(&address, unsigned_size(size_bytes), pool_, stream());
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    const MemoryInfo info = memory();
    return resource_exhausted(
        format("{}: cannot allocate {} bytes on {}: {:.2f} of {:.2f} GiB are free", what,
               size_bytes, name_, static_cast<double>(info.free_bytes) / kGib,
               static_cast<double>(info.total_bytes) / kGib));
  }
  check_cuda(error, "cudaMallocFromPoolAsync");
  Buffer buffer = {{static_cast<std::byte*>(address),
                    [stream = stream()](std::byte* p) { cudaFreeAsync(p, stream); }},
                   size_bytes};
  check_cuda(cudaMemsetAsync(address, 0, unsigned_size(size_bytes), stream()), "cudaMemsetAsync");
  stream_.synchronize();  // other streams may use it at once
  return buffer;
}

void CudaDevice::copy_to_device(void* device_dst, const void* host_src, int64_t size_bytes) {
  if (size_bytes <= 0) return;
  check_cuda(cudaMemcpyAsync(device_dst, host_src, unsigned_size(size_bytes),
                             cudaMemcpyHostToDevice, stream()),
             "cudaMemcpyAsync to the device");
  stream_.synchronize();
}

void CudaDevice::copy_pinned_to_device(void* device_dst, const void* host_src, int64_t size_bytes) {
  if (size_bytes <= 0) return;
  check_cuda(cudaMemcpyAsync(device_dst, host_src, unsigned_size(size_bytes),
                             cudaMemcpyHostToDevice, stream()),
             "cudaMemcpyAsync of pinned memory");
}

void CudaDevice::copy_to_pinned(void* host_dst, const void* device_src, int64_t size_bytes) {
  if (size_bytes <= 0) return;
  check_cuda(cudaMemcpyAsync(host_dst, device_src, unsigned_size(size_bytes),
                             cudaMemcpyDeviceToHost, stream()),
             "cudaMemcpyAsync to the host");
}

void CudaDevice::copy_to_host(void* host_dst, const void* device_src, int64_t size_bytes) {
  if (size_bytes <= 0) return;
  copy_to_pinned(host_dst, device_src, size_bytes);
  stream_.synchronize();
}

void CudaDevice::copy_on_device(void* device_dst, const void* device_src, int64_t size_bytes) {
  if (size_bytes <= 0) return;
  check_cuda(cudaMemcpyAsync(device_dst, device_src, unsigned_size(size_bytes),
                             cudaMemcpyDeviceToDevice, stream()),
             "cudaMemcpyAsync on the device");
}

Status CudaDevice::run(const std::function<Status()>& work) {
  const std::lock_guard lock(mutex_);
  try {
    const DeviceScope scope(index_);
    return work();
  } catch (const OpError& error) {
    return error.status();
  } catch (const DeviceError& error) {
    return internal_error(format("{}: {}", name_, error.what()));
  }
}

Status CudaDevice::run_recorded(const std::vector<int64_t>& key,
                                const std::function<Status()>& work) {
  constexpr size_t kMaxRecords = 256;
  const auto found = records_.find(key);
  if (found == records_.end()) {
    if (records_.size() >= kMaxRecords) records_.clear();
    records_.emplace(key, std::nullopt);
    return work();
  }
  if (!found->second.has_value()) {
    Status status;
    Graph graph = Graph::capture(stream(), [&] { status = work(); });
    OCTAVO_TRY(std::move(status));
    records_[key] = std::move(graph);
  }
  records_[key]->launch(stream());
  return {};
}

Result<Buffer> CudaDevice::allocate_pinned(int64_t size_bytes, std::string_view what) {
  if (size_bytes < 0) return invalid_argument(format("{}: {} bytes asked for", what, size_bytes));
  if (size_bytes == 0) return Buffer{};
  const DeviceScope scope(index_);
  void* address = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&address, unsigned_size(size_bytes), cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation || error == cudaErrorInvalidValue) {
    cudaGetLastError();
    return resource_exhausted(format("{}: cannot allocate {} bytes of pinned host memory: {}", what,
                                     size_bytes, cudaGetErrorString(error)));
  }
  check_cuda(error, "cudaHostAlloc");
  return Buffer{{static_cast<std::byte*>(address), [](std::byte* p) { cudaFreeHost(p); }},
                size_bytes};
}

MemoryInfo CudaDevice::memory() const {
  const DeviceScope scope(index_);
  size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  const int64_t kept = pool_counter(pool_, cudaMemPoolAttrReservedMemCurrent) -
                       pool_counter(pool_, cudaMemPoolAttrUsedMemCurrent);
  return {static_cast<int64_t>(free_bytes) + std::max<int64_t>(0, kept),
          static_cast<int64_t>(total_bytes)};
}

}  // namespace octavo::backends::cuda
