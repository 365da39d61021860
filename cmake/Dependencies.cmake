# Debian 12's packages; each is included by one wrapper file in src/ (see docs/architecture.md).
# Linked statically where Debian has the archive; fmt, spdlog and CLI11 are used as headers.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(Threads REQUIRED)
find_package(Utf8proc REQUIRED)
find_package(Pcre2 REQUIRED)
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(FMT_INCLUDE_DIR fmt/core.h REQUIRED)
find_path(SPDLOG_INCLUDE_DIR spdlog/spdlog.h REQUIRED)
if(OCTAVO_TESTS)
  find_package(GTest REQUIRED)
endif()
