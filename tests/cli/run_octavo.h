// Runs the command as a user does, by the shell.
#pragma once

#include <string>

namespace octavo::testing {

struct Outcome {
  int exit_code;  // -1: ended by a signal
  std::string out;
  std::string err;
};

// `octavo ARGUMENTS` with `input` on standard input. `prefix` comes before the command: variables,
// or another command such as timeout. `redirection` comes last and may send the output elsewhere.
Outcome octavo(const std::string& arguments, const std::string& input = "",
               const std::string& prefix = "", const std::string& redirection = "");

// One error on stderr that holds `part`, nothing on stdout.
void expect_failure(const Outcome& outcome, int exit_code, const std::string& part);

// The path of a new tiny model, without a tokenizer.
std::string tiny_model();

std::string read_file(const std::string& path);

}  // namespace octavo::testing
