// A CUDA graph: work recorded once from a stream and launched as one piece.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <utility>

namespace octavo::backends::cuda {

class Graph {
 public:
  // What `record` puts into `stream` is not run but kept. An exception of `record` ends the
  // capture and passes through; a call that cannot be captured throws DeviceError.
  static Graph capture(cudaStream_t stream, const std::function<void()>& record);

  ~Graph();
  Graph(Graph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Records anew. True: only arguments and sizes of launches had changed, and the graph took them
  // over in place; false: it was made again.
  bool update(cudaStream_t stream, const std::function<void()>& record);

  void launch(cudaStream_t stream) const;

 private:
  explicit Graph(cudaGraphExec_t executable) : executable_(executable) {}

  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace octavo::backends::cuda
