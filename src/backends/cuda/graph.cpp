#include "backends/cuda/graph.h"

#include <memory>

#include "backends/cuda/device_error.h"

namespace octavo::backends::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using Recording = std::unique_ptr<CUgraph_st, DestroyGraph>;

Recording record_graph(cudaStream_t stream, const std::function<void()>& record) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    record();
  } catch (...) {  // a stream left in capture would refuse all later work
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return Recording(graph);
}

cudaGraphExec_t instantiate(const Recording& recording) {
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaGraphInstantiate(&executable, recording.get(), 0), "cudaGraphInstantiate");
  return executable;
}

}  // namespace

Graph Graph::capture(cudaStream_t stream, const std::function<void()>& record) {
  return Graph(instantiate(record_graph(stream, record)));
}

Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

bool Graph::update(cudaStream_t stream, const std::function<void()>& record) {
  const Recording recording = record_graph(stream, record);
  cudaGraphExecUpdateResultInfo info = {};
  const cudaError_t error = cudaGraphExecUpdate(executable_, recording.get(), &info);
  if (error == cudaSuccess) return true;
  if (error != cudaErrorGraphExecUpdateFailure) check_cuda(error, "cudaGraphExecUpdate");
  cudaGetLastError();  // handled here: the next launch must not report it
  *this = Graph(instantiate(recording));
  return false;
}

void Graph::launch(cudaStream_t stream) const {
  check_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
}

}  // namespace octavo::backends::cuda
