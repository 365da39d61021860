#include "cli/args.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <type_traits>

#include "base/format.h"
#include "cli/message.h"

namespace octavo::cli {
namespace {

// The words of the command line with underscores in the names of known flags turned into dashes:
// people write both. Values stay as they are.
std::vector<std::string> normalize(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> words;
  bool is_value = false;  // of the flag before
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t end = std::min(word.find('='), word.size());
    std::string name = word.substr(0, end);
    std::replace(name.begin(), name.end(), '_', '-');
    const CLI::Option* option =
        is_value || !name.starts_with("--") ? nullptr : app.get_option_no_throw(name);
    const bool takes_value = option != nullptr && option->get_items_expected_min() > 0;
    if (takes_value && end + 1 == word.size()) {
      // CLI11 would take the next word for the value of `--flag=`.
      words.insert(words.end(), {name, ""});
      continue;
    }
    words.push_back(option == nullptr ? word : name + word.substr(end));
    is_value = takes_value && end == word.size();
  }
  return words;
}

template <typename T>
std::string check_number(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool whole = stop == end;
  if (whole && error == std::errc()) return "";
  if (whole && error == std::errc::result_out_of_range) return text + " is out of range";
  return format("'{}' is not {}", text,
                std::is_unsigned_v<T>   ? "an integer of 0 or more"
                : std::is_integral_v<T> ? "an integer"
                                        : "a number");
}

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;

// What is wrong with the text of a flag's value, "" for nothing. CLI11 alone takes an empty text
// for 0 and the nearest number for one that is out of range.
template <typename T>
std::string check_value(const std::string& text) {
  if (text.empty()) return "the value is empty";
  if constexpr (std::is_arithmetic_v<T>) return check_number<T>(text);
  if constexpr (kIsOptional<T>) return check_number<typename T::value_type>(text);
  return "";
}

}  // namespace

struct Args::Impl {
  Impl(const std::string& name, const std::string& summary) : app(summary, "octavo " + name) {}
  CLI::App app;

  template <typename T>
  CLI::Option* add(const std::string& flag, T& value, const std::string& help) {
    return app.add_option(flag, value, help)->check(check_value<T>);
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
void Args::option(const std::string& flag, double& value, const std::string& help) {
  impl_->add(flag, value, help)->capture_default_str();
}
void Args::option(const std::string& flag, std::optional<int32_t>& value, const std::string& help) {
  impl_->add(flag, value, help);
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

void Args::list(const std::string& flag, std::vector<std::string>& values,
                const std::string& help) {
  impl_->add(flag, values, help)->expected(1, -1);
}

void Args::choice(const std::string& flag, std::string& value,
                  const std::vector<std::string>& choices, const std::string& help) {
  impl_->add(flag, value, help)->check(CLI::IsMember(choices))->capture_default_str();
}

void Args::flag(const std::string& flag, bool& value, const std::string& help) {
  impl_->app.add_flag(flag, value, help);
}

bool Args::given(const std::string& flag) const {
  return impl_->app.count(flag) > 0;
}

std::optional<int> Args::parse(int argc, const char* const* argv) {
  std::vector<std::string> words = normalize(impl_->app, argc, argv);
  std::reverse(words.begin(), words.end());  // CLI11 takes them last to first
  try {
    impl_->app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return print_out(impl_->app.help()) ? kExitOk : kExitFailed;
  } catch (const CLI::ParseError& error) {
    print_error(error.what());
    print_hint("see " + impl_->app.get_name() + " --help");
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace octavo::cli
