// What the machine has of CUDA, in sentences for people. No CUDA type is seen here, and nothing
// fails: a machine without a driver is described as one.
#pragma once

#include <string>
#include <vector>

namespace octavo::backends {

// Runtime, driver and cuBLASLt and what is wrong with them, then each device: whether its tensor
// cores compute what they should, and which attention runs.
std::vector<std::string> describe_cuda();

}  // namespace octavo::backends
