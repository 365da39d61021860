// Runs the command as a shell does, for the tests of its output, exit codes and messages.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "support/tiny_llama.h"

namespace octavo {

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs `octavo ARGUMENTS` by the shell, with `input` on standard input.
inline Outcome octavo(const std::string& arguments, const std::string& input = "",
                      const std::string& environment = "") {
  const std::string base = testing::temp_path("");
  std::ofstream(base + "in", std::ios::binary) << input;
  const std::string command = environment + " " OCTAVO_BINARY " " + arguments + " <" + base +
                              "in >" + base + "out 2>" + base + "err";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(base + "out"),
          read_file(base + "err")};
}

inline void expect_failure(const Outcome& outcome, int exit_code, const std::string& part) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("octavo: error: ", 0), 0u) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

}  // namespace octavo
