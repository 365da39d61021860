# The CUDA toolkit is looked for only when OCTAVO_CUDA is ON. The list of architectures must be set
# before the first target is created: CMake 3.25 with CUDA 13 otherwise stops with an empty list.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "OCTAVO_CUDA needs CMAKE_CUDA_ARCHITECTURES: use the preset cuda")
endif()
if(NOT DEFINED CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit 13 REQUIRED)
