// What the machine has of CUDA, in sentences for people. No CUDA type is seen here, and nothing
// fails: a machine without a driver is described as one.
#pragma once

#include <string>
#include <vector>

namespace octavo::backends {

// Runtime and driver, then each device and whether its tensor cores compute what they should.
std::vector<std::string> describe_cuda();

}  // namespace octavo::backends
