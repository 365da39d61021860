// What the ops of a GPU keep from call to call: matrix products with their measured algorithms, and
// the plans of a step's attention, which its layers share. Lives as long as the process.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/device_cuda.h"
#include "backends/cuda/matmul.h"
#include "ops/ops.h"

namespace octavo::backends::cuda {

// Which layers of a step share a plan: those with the same kernel and mask.
struct PlanKey {
  bool decode = false;
  bool portable = false;
  int window = -1;
  int chunk = 0;

  bool operator==(const PlanKey&) const = default;
};

class OpsState {
 public:
  // Of a device that is open; made by the first call. The error says what the machine lacks.
  static Result<OpsState*> open(CudaDevice& device);

  CudaDevice& device() { return device_; }

  // Memory for a part of a matrix of 4-bit codes in bfloat16 (linear_int4.h), which stays; taken
  // when the first such matrix is loaded, before anybody plans with what is free.
  Status reserve_decoded();
  std::byte* decoded() const { return decoded_.data.get(); }
  Matmul& matmul() { return *matmul_; }

  // Memory for a plan of this key, and whether it is to be made: it is not where the last one was
  // for the same step. A larger plan than all before takes memory.
  struct Plan {
    void* memory;
    bool stale;
  };
  Plan plan(const PlanKey& key, uint64_t step_id, size_t bytes);

 private:
  struct Entry {
    PlanKey key;
    uint64_t step_id;
    Buffer memory;
  };

  OpsState(CudaDevice& device, std::unique_ptr<Matmul> matmul)
      : device_(device), matmul_(std::move(matmul)) {}

  CudaDevice& device_;
  std::unique_ptr<Matmul> matmul_;
  Buffer decoded_;
  std::mutex mutex_;
  std::vector<Entry> plans_;
};

// Of the context's device.
OpsState& state_of(const ops::ExecContext& ctx);

}  // namespace octavo::backends::cuda
