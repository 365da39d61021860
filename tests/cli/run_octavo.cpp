#include "cli/run_octavo.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo::testing {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Outcome octavo(const std::string& arguments, const std::string& input, const std::string& prefix,
               const std::string& redirection) {
  const std::string base = temp_path("std");
  std::ofstream(base + "in", std::ios::binary) << input;
  const std::string command = prefix + " " OCTAVO_BINARY " " + arguments + " <" + base + "in >" +
                              base + "out 2>" + base + "err " + redirection;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(base + "out"),
          read_file(base + "err")};
}

void expect_failure(const Outcome& outcome, int exit_code, const std::string& part) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("octavo: error: ", 0), 0u) << outcome.err;
  EXPECT_EQ(outcome.err.find("error:"), outcome.err.rfind("error:")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

std::string tiny_model() {
  std::string path = temp_path("model.gguf");
  write_tiny_llama(path, {});
  return path;
}

}  // namespace octavo::testing
