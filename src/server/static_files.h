// The files of web/, which the build puts into the program: the chat page needs nothing else.
#pragma once

#include <span>
#include <string_view>

namespace octavo::server {

struct StaticFile {
  std::string_view name;
  std::string_view content;
};

// Made by cmake/EmbedFiles.cmake.
std::span<const StaticFile> static_files();

}  // namespace octavo::server
