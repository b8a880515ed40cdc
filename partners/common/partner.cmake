# SPDX-License-Identifier: Apache-2.0
# What projects of devices share. Alone, such a project finds an installed Transom; in the repository's own build it uses
# the targets that are there.
if(NOT TARGET transom::plugin)
  find_package(transom 0.1 REQUIRED COMPONENTS plugin)
  option(TRANSOM_TESTS "Build the tests" ON)
  set(CMAKE_CXX_STANDARD 20)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  enable_testing()
endif()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

if(NOT TARGET partner_warnings)
  add_library(partner_warnings INTERFACE)
  target_compile_options(partner_warnings INTERFACE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
endif()

# partner_tests(NAME SOURCES ... LIBRARIES ... DEPENDS ... ENVIRONMENT name=value ...): a program of tests, each of
# which is an entry of ctest. They use the public interface of Transom and its program, and find the plugins of this
# build.
function(partner_tests name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LIBRARIES;DEPENDS;ENVIRONMENT" ${ARGN})
  find_package(GTest REQUIRED)
  set(common ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  # The paths are compiled into a file of their own; properties of discovered tests take one variable alone.
  list(JOIN TEST_ENVIRONMENT "|" environment)
  add_library(${name}_places OBJECT ${common}/testing/places.cpp)
  target_include_directories(${name}_places PRIVATE ${common})
  target_compile_definitions(${name}_places PRIVATE PARTNER_PROGRAM="${TRANSOM_PROGRAM}"
    PARTNER_FOLDER="${PROJECT_SOURCE_DIR}"
    "PARTNER_ENVIRONMENT=\"TRANSOM_PLUGIN_PATH=${CMAKE_BINARY_DIR}/lib/transom|TRANSOM_VERIFY=1|${environment}\"")
  add_executable(${name} ${TEST_SOURCES} $<TARGET_OBJECTS:${name}_places>)
  target_include_directories(${name} PRIVATE ${common})
  target_compile_options(${name} PRIVATE -O1)  # tests compile in three quarters of the time, and run as fast
  target_link_libraries(${name} PRIVATE transom::transom partner_warnings ${TEST_LIBRARIES}
                                        nlohmann_json::nlohmann_json fmt::fmt GTest::gtest_main)
  if(TEST_DEPENDS)
    add_dependencies(${name} ${TEST_DEPENDS})
  endif()
  if(TARGET transom_program)
    add_dependencies(${name} transom_program transom_cpu transom_reference)
  endif()
  transom_suites(${name} PREFIX ${PROJECT_NAME}. PROPERTIES TIMEOUT 1800)
endfunction()
