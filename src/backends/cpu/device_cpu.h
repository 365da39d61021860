// Host memory as a Device.
#pragma once

#include "tensor/device.h"

namespace octavo::backends::cpu {

class CpuDevice : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  bool host_accessible() const override { return true; }
  Result<Buffer> allocate(int64_t size_bytes, std::string_view what) override;
  void copy_to_device(void* device_dst, const void* host_src, int64_t size_bytes) override;
  void copy_to_host(void* host_dst, const void* device_src, int64_t size_bytes) override;
  void copy_on_device(void* device_dst, const void* device_src, int64_t size_bytes) override;
  Result<Buffer> allocate_pinned(int64_t size_bytes, std::string_view what) override {
    return allocate(size_bytes, what);
  }
  void copy_pinned_to_device(void* device_dst, const void* host_src, int64_t size_bytes) override {
    copy_to_device(device_dst, host_src, size_bytes);
  }
  void copy_to_pinned(void* host_dst, const void* device_src, int64_t size_bytes) override {
    copy_to_host(host_dst, device_src, size_bytes);
  }
  void synchronize() override {}
  Status run(const std::function<Status()>& work) override { return work(); }
  Status run_recorded(const std::vector<int64_t>&, const std::function<Status()>& work) override {
    return work();
  }
  int64_t available_bytes() const override;
};

// Lives as long as the process.
CpuDevice& cpu_device();

}  // namespace octavo::backends::cpu
