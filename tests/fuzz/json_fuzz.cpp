// JSON of any bytes: parsing never crashes, and what was parsed survives being written and read.
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = octavo::parse_json(text, "input");
  if (!value.ok()) return 0;
  const std::string dumped = octavo::dump_json(*value);
  if (!octavo::utf8_is_valid(dumped)) std::abort();
  const auto again = octavo::parse_json(dumped, "output");
  if (!again.ok() || octavo::dump_json(*again) != dumped) std::abort();
  return 0;
}
