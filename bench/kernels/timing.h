// How every kernel is timed: graphs of many launches, replayed; the median.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "backends/cuda/graph.h"
#include "backends/cuda/stream.h"

namespace octavo::backends::cuda {

inline constexpr int kWarmUps = 10;
inline constexpr int kReplays = 50;

// The median of microseconds from before to after `run`, which puts work into the stream.
inline double time_us(const Stream& stream, const std::function<void()>& run) {
  Event begin(Event::Timing::kOn), end(Event::Timing::kOn);
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + kReplays; ++i) {
    begin.record(stream.get());
    run();
    end.record(stream.get());
    end.synchronize();
    if (i >= kWarmUps) times.push_back(Event::elapsed_us(begin, end));
  }
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

// Microseconds of a replay of what `record` puts into the stream it is given.
inline double time_graph(const std::function<void(cudaStream_t)>& record) {
  const Stream stream;
  const Graph graph = Graph::capture(stream.get(), [&] { record(stream.get()); });
  return time_us(stream, [&] { graph.launch(stream.get()); });
}

}  // namespace octavo::backends::cuda
