// docs/quantization.md lists what the table of schemes holds: the test writes the list from the
// table and compares. Where it fails, its message is the text to put into the page.
#include <gtest/gtest.h>

#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "quant/scheme.h"

namespace octavo::quant {
namespace {

TEST(QuantizationDoc, ListsTheTableOfSchemes) {
  std::string expected =
      "| quant_method | weights | activations | held as, a weight |\n|---|---|---|---|\n";
  for (const SchemeRow& row : schemes()) {
    expected += format("| `{}` | {} | {} | {} |\n", row.quant_method, row.stored, row.activations,
                       row.held);
  }
  const std::string path = OCTAVO_TEST_DATA "/../../docs/quantization.md";
  const std::string page = formats::read_text_file(path).value();
  EXPECT_NE(page.find(expected), std::string::npos) << path << " lacks:\n" << expected;
}

}  // namespace
}  // namespace octavo::quant
