# octavo_library(NAME SRCS ... DEPS ...) and octavo_test(NAME SRCS ... DEPS ...): one way to make a
# target, so that flags are the same everywhere.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(octavo_flags INTERFACE)
target_include_directories(octavo_flags INTERFACE
  ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
# One binary runs on every x86-64-v2 machine; files with wider instructions name their flags
# themselves. Contraction is off: a result must not depend on what the compiler fuses. GCC 12 warns
# of std::string concatenations that are right (-Wrestrict, its bug 105651). Where several files are
# compiled as one, a local name may be that of another's constant, and only GCC's main file may hold
# types of no linkage.
target_compile_options(octavo_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v2 -ffp-contract=off -Wall -Wextra -Wpedantic
    -Wnon-virtual-dtor -Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    $<IF:$<BOOL:${CMAKE_UNITY_BUILD}>,$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>,-Wshadow>
    $<$<BOOL:${OCTAVO_WERROR}>:-Werror>>)
# The sanitizers' checks hide from GCC what is initialised, as its manual warns; builds without them
# keep that warning. A null pointer ends in AddressSanitizer's report without a check at each
# access, which would be a tenth of what there is to compile.
if(OCTAVO_SANITIZE)
  target_compile_options(octavo_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${OCTAVO_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize=null,vptr -fno-sanitize-recover=all
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>>)
  target_link_options(octavo_flags INTERFACE -fsanitize=${OCTAVO_SANITIZE})
endif()
if(OCTAVO_FUZZ)
  target_compile_options(octavo_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(octavo_library NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${NAME} STATIC ${ARG_SRCS})
  target_link_libraries(${NAME} PUBLIC octavo_flags ${ARG_DEPS})
endfunction()

# A test is labelled by what its name starts with (unit_base: unit); the target tests_<label> builds
# all tests of a label.
function(octavo_test NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SRCS})
  target_link_libraries(${NAME} PRIVATE octavo_flags ${ARG_DEPS} GTest::gtest GTest::gtest_main)
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${NAME} PRIVATE
    OCTAVO_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" OCTAVO_BINARY="${CMAKE_BINARY_DIR}/octavo")
  add_test(NAME ${NAME} COMMAND ${NAME})
  string(REGEX REPLACE "_.*" "" label ${NAME})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT 1500 LABELS ${label})
  # Tests of the rest are of the CPU, also where `auto` would find a GPU.
  if(NOT label MATCHES "^(gpu|golden)$")
    set_tests_properties(${NAME} PROPERTIES ENVIRONMENT CUDA_VISIBLE_DEVICES=)
  endif()
  if(NOT TARGET tests_${label})
    add_custom_target(tests_${label})
  endif()
  add_dependencies(tests_${label} ${NAME})
endfunction()
