// --debug-page-table: a page table as people read it.
#pragma once

#include <span>
#include <string>

#include "octavo/model.h"

namespace octavo::cli {

// A line for each logical page: its number, its physical block or -1, and how many have that block.
std::string page_table_text(std::span<const PageTableRow> rows);

}  // namespace octavo::cli
