#include "cli/args.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/message.h"

namespace octavo::cli {

struct Args::Impl {
  Impl(const std::string& name, const std::string& summary) : app(summary, "octavo " + name) {}
  CLI::App app;

  template <typename T>
  CLI::Option* add(const std::string& flag, T& value, const std::string& help) {
    return app.add_option(flag, value, help)->ignore_underscore();
  }
};

Args::Args(const std::string& name, const std::string& summary, const std::string& examples)
    : impl_(std::make_unique<Impl>(name, summary)) {
  impl_->app.set_help_flag("-h,--help", "Show this help and exit");
  if (!examples.empty()) impl_->app.footer("\nExamples:\n" + examples);
}
Args::~Args() = default;

void Args::positional(const std::string& name, std::string& value, const std::string& help,
                      bool required) {
  impl_->app.add_option(name, value, help)->required(required);
}

void Args::option(const std::string& flag, std::string& value, const std::string& help) {
  CLI::Option* option = impl_->add(flag, value, help);
  if (!value.empty()) option->capture_default_str();
}
void Args::option(const std::string& flag, int64_t& value, const std::string& help) {
  impl_->add(flag, value, help)->capture_default_str();
}
void Args::option(const std::string& flag, int& value, const std::string& help) {
  impl_->add(flag, value, help)->capture_default_str();
}
void Args::option(const std::string& flag, float& value, const std::string& help) {
  impl_->add(flag, value, help)->capture_default_str();
}
void Args::option(const std::string& flag, std::optional<int64_t>& value, const std::string& help) {
  impl_->add(flag, value, help);
}
void Args::option(const std::string& flag, std::optional<uint64_t>& value,
                  const std::string& help) {
  impl_->add(flag, value, help);
}
void Args::option(const std::string& flag, std::vector<std::string>& values,
                  const std::string& help) {
  impl_->add(flag, values, help)->allow_extra_args(false);
}

void Args::choice(const std::string& flag, std::string& value,
                  const std::vector<std::string>& choices, const std::string& help) {
  impl_->add(flag, value, help)->check(CLI::IsMember(choices))->capture_default_str();
}

void Args::flag(const std::string& flag, bool& value, const std::string& help) {
  impl_->app.add_flag(flag, value, help)->ignore_underscore();
}

bool Args::given(const std::string& flag) const {
  return impl_->app.count(flag) > 0;
}

std::optional<int> Args::parse(int argc, const char* const* argv) {
  try {
    impl_->app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(impl_->app.help().c_str(), stdout);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    print_error(error.what());
    print_hint("see " + impl_->app.get_name() + " --help");
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace octavo::cli
