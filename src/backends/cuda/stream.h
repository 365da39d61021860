// Streams and events that destroy themselves. A failing call throws DeviceError.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "backends/cuda/device_error.h"

namespace octavo::backends::cuda {

// Runs in order what is put into it; not held up by the default stream.
class Stream {
 public:
  Stream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// A point in a stream that another stream or the host can wait for.
class Event {
 public:
  // Only a timed one can be asked for elapsed_us; recording it costs a little more.
  enum class Timing { kOff, kOn };
  explicit Event(Timing timing = Timing::kOff) {
    const unsigned flags = timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming;
    check_cuda(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
  }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  // What is put into `stream` from now on starts after the recorded point.
  void hold(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_, cudaEventWaitDefault), "cudaStreamWaitEvent");
  }
  void synchronize() const { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  bool reached() const {
    const cudaError_t error = cudaEventQuery(event_);
    if (error != cudaErrorNotReady) check_cuda(error, "cudaEventQuery");
    return error == cudaSuccess;
  }

  // Microseconds from `begin` to `end`, both timed and reached.
  static double elapsed_us(const Event& begin, const Event& end) {
    float ms = 0.0f;
    check_cuda(cudaEventElapsedTime(&ms, begin.event_, end.event_), "cudaEventElapsedTime");
    return 1000.0 * static_cast<double>(ms);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace octavo::backends::cuda
