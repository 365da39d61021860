// The backend "cuda": the ops of ops_cuda.h on one GPU. No CUDA type is seen here.
#pragma once

#include "backends/attention_choice.h"
#include "backends/backend.h"

namespace octavo::backends::cuda {

// On the first GPU that CUDA_VISIBLE_DEVICES leaves. The error says what the machine lacks.
Result<Backend> open_cuda(Arithmetic arithmetic, Packing packing);

// The function of an implementation that attention_choice.cpp names.
ops::OpFn<ops::AttentionArgs> attention_fn(const AttentionChoice& choice);

}  // namespace octavo::backends::cuda
