#include "backends/cpu/device_cpu.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "base/memory_limits.h"

namespace octavo::backends::cpu {
Result<Buffer> CpuDevice::allocate(int64_t size_bytes, std::string_view what) {
  if (size_bytes < 0) {
    return invalid_argument(format("{}: {} bytes asked for", what, size_bytes));
  }
  if (size_bytes == 0) return Buffer{};
  // Anonymous pages are zero and take memory when they are first touched; without MAP_NORESERVE a
  // large KV cache would count as used up at once. No huge pages: of the cache only the beginning
  // of each layer's part is touched at first, and at 2 MiB a part that took 120 MB for a 135M
  // model.
  void* address = mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return resource_exhausted(
        format("{}: cannot allocate {} bytes: {}", what, size_bytes, std::strerror(errno)));
  }
  return Buffer{{static_cast<std::byte*>(address),
                 [size_bytes](std::byte* p) { munmap(p, static_cast<size_t>(size_bytes)); }},
                size_bytes};
}

void CpuDevice::copy_to_device(void* device_dst, const void* host_src, int64_t size_bytes) {
  if (size_bytes > 0) std::memcpy(device_dst, host_src, static_cast<size_t>(size_bytes));
}

void CpuDevice::copy_to_host(void* host_dst, const void* device_src, int64_t size_bytes) {
  if (size_bytes > 0) std::memcpy(host_dst, device_src, static_cast<size_t>(size_bytes));
}

void CpuDevice::copy_on_device(void* device_dst, const void* device_src, int64_t size_bytes) {
  if (size_bytes > 0) std::memcpy(device_dst, device_src, static_cast<size_t>(size_bytes));
}

int64_t CpuDevice::available_bytes() const {
  return available_memory_bytes();
}

CpuDevice& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace octavo::backends::cpu
