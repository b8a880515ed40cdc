# SPDX-License-Identifier: Apache-2.0
# For makers of devices, in this tree and outside of it: find_package(transom COMPONENTS plugin) includes this file.

include(GNUInstallDirs)

# transom_plugin(NAME mine SOURCES ... LIBRARIES ... [DESCRIPTION file]): the target transom_mine, the library
# libtransom_mine.so, in lib/transom of the build and of an installation. Nothing but transom_plugin_open is visible.
# DESCRIPTION: the file libtransom_mine.json, which goes beside the library (docs/device-plugins.md, section 8).
function(transom_plugin)
  cmake_parse_arguments(PLUGIN "" "NAME;DESCRIPTION" "SOURCES;LIBRARIES" ${ARGN})
  set(target transom_${PLUGIN_NAME})
  add_library(${target} MODULE ${PLUGIN_SOURCES})
  target_link_libraries(${target} PRIVATE transom::plugin ${PLUGIN_LIBRARIES})
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                        POSITION_INDEPENDENT_CODE ON LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/transom)
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/transom)
  if(PLUGIN_DESCRIPTION)
    configure_file(${PLUGIN_DESCRIPTION} ${CMAKE_BINARY_DIR}/lib/transom/lib${target}.json COPYONLY)
    install(FILES ${PLUGIN_DESCRIPTION} DESTINATION ${CMAKE_INSTALL_LIBDIR}/transom RENAME lib${target}.json)
  endif()
endfunction()
