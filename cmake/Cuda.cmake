# The CUDA toolkit is looked for only when OCTAVO_CUDA is ON. The list of architectures must be set
# before the first target is created: CMake 3.25 with CUDA 13 otherwise stops with an empty list.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "OCTAVO_CUDA needs CMAKE_CUDA_ARCHITECTURES: use the preset cuda")
endif()
if(NOT DEFINED CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit 13 REQUIRED)

# Host code under nvcc gets the flags of other C++ but -Wpedantic, which dislikes what nvcc
# generates. A kernel that spills registers is an error: it was tuned not to.
set(host_flags -march=x86-64-v2 -ffp-contract=off -Wall -Wextra -Wshadow)
list(JOIN host_flags "," host_flags)
set(cuda_flags -Xcompiler=${host_flags} -lineinfo -Xptxas=-warn-spills)
if(OCTAVO_WERROR)
  list(APPEND cuda_flags -Werror=all-warnings -Xptxas=-Werror)
endif()
target_compile_options(octavo_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")
