#include <cmath>
#include <numbers>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {
namespace {

double activate(double z, ops::Activation activation) {
  if (activation == ops::Activation::kSilu) return z / (1 + std::exp(-z));
  const double u = std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z);
  return 0.5 * z * (1 + std::tanh(u));
}

}  // namespace

void activation_mul(ops::ExecContext&, const ops::ActivationMulArgs& a) {
  for (int64_t t = 0; t < a.gate.rows; ++t) {
    for (int64_t i = 0; i < a.gate.cols; ++i) {
      const double z = a.gate.row<float>(t)[i];
      a.out.row<float>(t)[i] =
          static_cast<float>(activate(z, a.activation) * a.up.row<float>(t)[i]);
    }
  }
}

}  // namespace octavo::backends::ref
