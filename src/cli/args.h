// Args: the flags of one command. The only wrapper of CLI11 is args.cpp; commands declare what they
// take and never parse by hand. Dashes and underscores in flag names are the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace octavo::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

class Args {
 public:
  // `name`: the command; `summary`: one sentence; `examples`: lines shown at the end of --help.
  Args(const std::string& name, const std::string& summary, const std::string& examples);
  ~Args();
  Args(const Args&) = delete;
  Args& operator=(const Args&) = delete;

  // Positional arguments, in order of declaration. The variable's value is the default.
  void positional(const std::string& name, std::string& value, const std::string& help,
                  bool required = true);

  // `--flag VALUE`; name with its dashes. The default shown in --help is the variable's value. An
  // empty VALUE, and a number that the variable cannot hold, are usage errors.
  void option(const std::string& flag, std::string& value, const std::string& help);
  void option(const std::string& flag, int64_t& value, const std::string& help);
  void option(const std::string& flag, int& value, const std::string& help);
  void option(const std::string& flag, float& value, const std::string& help);
  void option(const std::string& flag, double& value, const std::string& help);
  void option(const std::string& flag, std::optional<int32_t>& value, const std::string& help);
  void option(const std::string& flag, std::optional<int64_t>& value, const std::string& help);
  void option(const std::string& flag, std::optional<uint64_t>& value, const std::string& help);
  void option(const std::string& flag, std::vector<std::string>& values, const std::string& help);

  // `--flag VALUE VALUE …`, up to the next flag.
  void list(const std::string& flag, std::vector<std::string>& values, const std::string& help);

  // `--flag VALUE` with VALUE one of `choices`.
  void choice(const std::string& flag, std::string& value, const std::vector<std::string>& choices,
              const std::string& help);

  void flag(const std::string& flag, bool& value, const std::string& help);

  // Whether the user gave `flag`. After parse.
  bool given(const std::string& flag) const;

  // Parses argv[1..]; argv[0] is the command. nullopt: go on. Otherwise the exit code, after help
  // was printed on stdout (0, or 1 where that failed) or a usage error on stderr (2).
  std::optional<int> parse(int argc, const char* const* argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::cli
