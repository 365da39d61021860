// What the programs here have around their measurements: a way out for errors, and how much a graph
// goes through.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "octavo/status.h"

namespace octavo::backends::cuda {

// What the launches of a graph read together, so that none finds it in L2.
inline constexpr int64_t kColdBytes = 120'000'000;
// Of a graph, so that starting it does not count.
inline constexpr int kMinLaunches = 20;

inline void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// The exit code of a program that does `run`, after an error of it has been printed.
inline int run_program(void (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace octavo::backends::cuda
