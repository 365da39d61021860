# octavo_embed_files(OUTPUT FILES...): a source file that defines octavo::server::static_files()
# with the text of these files. A change of one of them makes it anew.
function(octavo_embed_files OUTPUT)
  set(entries "")
  foreach(path ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} content)
    get_filename_component(name ${path} NAME)
    string(APPEND entries "    {\"${name}\", R\"octavo(${content})octavo\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "server/static_files.h"

namespace octavo::server {
namespace {

constexpr StaticFile kFiles[] = {
@entries@};

}  // namespace

std::span<const StaticFile> static_files() {
  return kFiles;
}

}  // namespace octavo::server
]])
endfunction()
