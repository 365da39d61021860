# cmake --install: the command, and the library as the CMake package `octavo` with the one target
# octavo::octavo. All folders of src/ become one archive, so that nothing of how the tree is cut
# into libraries shows outside; what it links to is found again by octavo-config.cmake.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(objects)
foreach(folder base tensor formats tokenizer grammar ops quant backends model engine)
  list(APPEND objects $<TARGET_OBJECTS:octavo_${folder}>)
endforeach()
if(OCTAVO_CUDA)
  list(APPEND objects $<TARGET_OBJECTS:backends_cuda> $<TARGET_OBJECTS:backends_cuda_sm90>)
  set(cuda_libraries CUDA::cudart_static)
endif()
add_library(octavo_archive STATIC ${objects})
set_target_properties(octavo_archive PROPERTIES
  OUTPUT_NAME octavo EXPORT_NAME octavo LINKER_LANGUAGE CXX)
target_compile_features(octavo_archive INTERFACE cxx_std_20)
target_link_libraries(octavo_archive PRIVATE
  Boost::json Utf8proc::utf8proc Pcre2::pcre2-8 Threads::Threads ${cuda_libraries})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/octavo)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/octavo-config.cmake.in
  ${CMAKE_BINARY_DIR}/octavo-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may break what the one before it promised.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/octavo-config-version.cmake
  COMPATIBILITY SameMinorVersion)

install(TARGETS octavo)
install(TARGETS octavo_archive EXPORT octavo INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT octavo NAMESPACE octavo:: FILE octavo-targets.cmake DESTINATION ${package_dir})
install(DIRECTORY include/octavo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES
  ${CMAKE_BINARY_DIR}/octavo-config.cmake ${CMAKE_BINARY_DIR}/octavo-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindPcre2.cmake ${CMAKE_CURRENT_LIST_DIR}/FindUtf8proc.cmake
  DESTINATION ${package_dir})
if(OCTAVO_CUDA)
  install(TARGETS octavo_flash_attn)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
