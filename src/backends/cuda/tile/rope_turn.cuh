// The angles of rotary embeddings.
#pragma once

namespace octavo::backends::cuda {

// Cosine and sine of position * inv_freq, times `factor`. In float a large angle would lose all
// that counts of it: half turns are taken off in double.
__device__ inline float2 rope_turn(float inv_freq, int position, float factor) {
  const float angle = __fmul_rn(static_cast<float>(position), inv_freq);
  constexpr double kInversePi = 0.31830988618379067154;
  const double half_turns = static_cast<double>(angle) * kInversePi;
  float sine, cosine;
  sincospif(static_cast<float>(half_turns - 2.0 * rint(0.5 * half_turns)), &sine, &cosine);
  return {cosine * factor, sine * factor};
}

}  // namespace octavo::backends::cuda
