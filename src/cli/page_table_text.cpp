#include "cli/page_table_text.h"

#include <algorithm>

#include "base/format.h"

namespace octavo::cli {

std::string page_table_text(std::span<const PageTableRow> rows) {
  const bool grouped =
      std::any_of(rows.begin(), rows.end(), [](auto& row) { return row.group > 0; });
  std::string text =
      grouped ? "  page  group     block  references\n" : "  page     block  references\n";
  for (const PageTableRow& row : rows) {
    text += format("{:6} ", row.page);
    if (grouped) text += format("{:6} ", row.group);
    text += format("{:9} {:11}\n", row.block, row.reference_count);
  }
  return text;
}

}  // namespace octavo::cli
