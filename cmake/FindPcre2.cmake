# Pcre2::pcre2-8, the static library where there is one. Installed beside the package's config,
# since programs that link octavo need it too.
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY NAMES libpcre2-8.a pcre2-8)
mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pcre2 REQUIRED_VARS PCRE2_LIBRARY PCRE2_INCLUDE_DIR)
if(Pcre2_FOUND AND NOT TARGET Pcre2::pcre2-8)
  add_library(Pcre2::pcre2-8 UNKNOWN IMPORTED)
  set_target_properties(Pcre2::pcre2-8 PROPERTIES
    IMPORTED_LOCATION ${PCRE2_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${PCRE2_INCLUDE_DIR})
endif()
