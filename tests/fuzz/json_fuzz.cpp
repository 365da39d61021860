// JSON of any bytes: parsing never crashes, and what was parsed survives being written and read.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "base/utf8.h"

namespace {

using octavo::Json;

// Boost 1.81 reads numbers of many digits or large exponents some units in the last place off; what
// is infinite is written as null.
bool same_number(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-12 * std::abs(a);
}

bool same(const Json& a, const Json& b) {
  if (a.is_double()) {
    if (!std::isfinite(a.get_double())) return b.is_null();
    return b.is_double() && same_number(a.get_double(), b.get_double());
  }
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    const auto& x = a.get_array();
    const auto& y = b.get_array();
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!same(x[i], y[i])) return false;
    }
    return true;
  }
  if (a.is_object()) {
    const auto& x = a.get_object();
    const auto& y = b.get_object();
    if (x.size() != y.size()) return false;
    for (auto i = x.begin(), j = y.begin(); i != x.end(); ++i, ++j) {
      if (i->key() != j->key() || !same(i->value(), j->value())) return false;
    }
    return true;
  }
  return a == b;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = octavo::parse_json(text, "input");
  if (!value.ok()) return 0;
  const std::string dumped = octavo::dump_json(*value);
  if (!octavo::utf8_is_valid(dumped)) std::abort();
  const auto again = octavo::parse_json(dumped, "output");
  if (!again.ok() || !same(*value, *again)) std::abort();
  return 0;
}
