# SPDX-License-Identifier: Apache-2.0
# Tests of GoogleTest as entries of ctest, for this tree and for makers of devices: find_package(transom COMPONENTS
# plugin) includes this file. A program takes a fifth of a second to start, and there are more than ten thousand tests:
# a suite is one entry, and so are all parameters of a test, where gtest_discover_tests makes one of each test.

set(TRANSOM_LIST_SUITES "${CMAKE_CURRENT_LIST_DIR}/TransomListSuites.cmake")

# transom_suites(program PREFIX name. [FILTER pattern] [WEIGHT number] [PROPERTIES ...]): entries name.Suite and, of
# tests with parameters, name.Suite.Test. Long ones begin first: WEIGHT says how much longer a test of this program
# takes than others do.
function(transom_suites program)
  cmake_parse_arguments(SUITES "" "PREFIX;FILTER;WEIGHT" "PROPERTIES" ${ARGN})
  string(MAKE_C_IDENTIFIER "${program}_${SUITES_PREFIX}" name)
  set(entries "${CMAKE_CURRENT_BINARY_DIR}/${name}entries.cmake")
  add_custom_command(TARGET ${program} POST_BUILD BYPRODUCTS ${entries} VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=$<TARGET_FILE:${program}>" "-DPREFIX=${SUITES_PREFIX}"
            "-DFILTER=${SUITES_FILTER}" "-DWEIGHT=${SUITES_WEIGHT}" "-DPROPERTIES=${SUITES_PROPERTIES}"
            "-DENTRIES=${entries}" -P "${TRANSOM_LIST_SUITES}")
  set(included "${CMAKE_CURRENT_BINARY_DIR}/${name}include.cmake")
  file(WRITE ${included} "if(EXISTS \"${entries}\")\n  include(\"${entries}\")\nelse()\n"
                         "  add_test(${SUITES_PREFIX}NotBuilt ${program}_is_not_built)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${included})
endfunction()
