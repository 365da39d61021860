// Where tensors live and how bytes get there: what the model layer needs of a device without
// knowing which. Implemented by each backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo {

// Device memory, freed with its last owner. `data` is a device address: only a backend dereferences
// it.
struct Buffer {
  std::shared_ptr<std::byte> data;
  int64_t size_bytes = 0;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data.get());
  }
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "cpu", "cuda:0"

  // Whether host code may read and write the device's memory through its addresses.
  virtual bool host_accessible() const = 0;

  // Zeroed memory, aligned to at least 64 bytes. `what` names its purpose in the error. Large
  // buffers take physical memory only when they are touched, where the device can do that.
  virtual Result<Buffer> allocate(int64_t size_bytes, std::string_view what) = 0;

  virtual void copy_to_device(void* device_dst, const void* host_src, int64_t size_bytes) = 0;
  virtual void copy_to_host(void* host_dst, const void* device_src, int64_t size_bytes) = 0;
  virtual void copy_on_device(void* device_dst, const void* device_src, int64_t size_bytes) = 0;

  // Host memory that the device copies from and to at full speed; not zeroed.
  virtual Result<Buffer> allocate_pinned(int64_t size_bytes, std::string_view what) = 0;

  // In the order of the device's work, which this does not wait for: `host_src`, of
  // allocate_pinned, stays as it is until a later copy_to_host or synchronize has returned.
  virtual void copy_pinned_to_device(void* device_dst, const void* host_src,
                                     int64_t size_bytes) = 0;

  // The same way back: `host_dst`, of allocate_pinned, has the bytes once a later copy_to_host or
  // synchronize has returned.
  virtual void copy_to_pinned(void* host_dst, const void* device_src, int64_t size_bytes) = 0;

  // Waits until all that was begun on the device has ended.
  virtual void synchronize() = 0;

  // Calls `work`, which may use the device and its ops. Whatever of that fails, now or with what
  // was begun before, is an error; without this call around it, it would end the process.
  virtual Status run(const std::function<Status()>& work) = 0;

  // work(), within run(), where calls with equal keys issue the same ops on the same memory,
  // whatever it holds: a device may record the first and repeat that.
  virtual Status run_recorded(const std::vector<int64_t>& key,
                              const std::function<Status()>& work) = 0;

  // What can still be allocated; 0: unknown.
  virtual int64_t available_bytes() const = 0;
};

}  // namespace octavo
