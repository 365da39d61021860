#include "backends/cuda/ops_state.h"

#include <algorithm>
#include <map>

#include "backends/cuda/device_error.h"
#include "backends/cuda/linear_int4.h"
#include "backends/cuda/ops_cuda.h"
#include "base/check.h"
#include "base/env.h"

namespace octavo::backends::cuda {
namespace {

// Never destroyed, as devices are not.
struct States {
  std::mutex mutex;
  std::map<const Device*, std::unique_ptr<OpsState>> by_device;
};

States& states() {
  static auto& all = *new States();
  return all;
}

}  // namespace

Result<OpsState*> OpsState::open(CudaDevice& device) {
  const std::lock_guard lock(states().mutex);
  std::unique_ptr<OpsState>& state = states().by_device[&device];
  if (state == nullptr) {
    auto matmul = OCTAVO_TRY(Matmul::create(device, octavo_home()));
    state.reset(new OpsState(device, std::move(matmul)));
  }
  return state.get();
}

Status OpsState::reserve_decoded() {
  const std::lock_guard lock(mutex_);
  if (decoded_.data != nullptr) return {};
  decoded_ = OCTAVO_TRY(device_.allocate(kDecodedBytes, "parts of int4 matrices in bfloat16"));
  return {};
}

OpsState::Plan OpsState::plan(const PlanKey& key, uint64_t step_id, size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto entry = std::find_if(plans_.begin(), plans_.end(),
                            [&](const Entry& known) { return known.key == key; });
  if (entry == plans_.end()) entry = plans_.insert(entry, {key, 0, {}});
  const auto size = static_cast<int64_t>(bytes);
  bool stale = step_id == 0 || entry->step_id != step_id;
  if (entry->memory.size_bytes < size) {
    auto memory = device_.allocate(size + size / 2, "the plan of a step's attention");
    check_op(memory.status());
    entry->memory = std::move(*memory);
    device_.forget_records();
    stale = true;
  }
  entry->step_id = step_id;
  return {entry->memory.data.get(), stale};
}

OpsState& state_of(const ops::ExecContext& ctx) {
  auto state = OpsState::open(static_cast<CudaDevice&>(*ctx.device));
  check_op(state.status());
  return **state;
}

cudaStream_t stream_of(const ops::ExecContext& ctx) {
  return static_cast<const CudaDevice*>(ctx.device)->stream();
}

}  // namespace octavo::backends::cuda
