#include "cli/page_table_text.h"

#include "base/format.h"

namespace octavo::cli {

std::string page_table_text(std::span<const PageTableRow> rows) {
  std::string text = "  page     block  references\n";
  for (const PageTableRow& row : rows) {
    text += format("{:6} {:9} {:11}\n", row.page, row.block, row.reference_count);
  }
  return text;
}

}  // namespace octavo::cli
