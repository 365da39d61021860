// What every command says in the same way, on stderr, and how it ends.
#pragma once

#include <string_view>

#include "octavo/status.h"

namespace octavo::cli {

void print_error(std::string_view message);  // octavo: error: …
void print_hint(std::string_view message);   // octavo: …

// Prints the error; the exit code for it (2 where the caller's flag was wrong is decided by Args;
// an operating error is always 1).
int fail(const Status& status);

// Writes to stdout and flushes. False once that has failed, which is printed as an error the first
// time: the command ends with kExitFailed.
bool print_out(std::string_view text);

}  // namespace octavo::cli
