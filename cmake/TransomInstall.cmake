# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: headers, library, plugins, the program, and a package that find_package(transom) finds.
include(CMakePackageConfigHelpers)

# oneDNN is not in Debian: its library goes along, and plugins look for it beside themselves.
install(TARGETS transom transom_plugin_headers EXPORT transomTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS probe_plugin RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/transom)
if(TARGET transom_program)
  set_target_properties(transom_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS transom_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(backend cpu reference)
  if(TARGET transom_${backend})
    set_target_properties(transom_${backend} PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/..")
  endif()
endforeach()
get_filename_component(onednn_directory ${dnnl_DIR}/../../.. ABSOLUTE)
install(FILES ${onednn_directory}/lib/libdnnl.so.3.2 DESTINATION ${CMAKE_INSTALL_LIBDIR}/transom RENAME libdnnl.so.3)
install(DIRECTORY include/transom DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY share/transom DESTINATION share)
install(EXPORT transomTargets NAMESPACE transom:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/transom)
configure_package_config_file(cmake/transom-config.cmake.in ${CMAKE_BINARY_DIR}/transom-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/transom)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/transom-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/transom-config.cmake ${CMAKE_BINARY_DIR}/transom-config-version.cmake
              cmake/TransomListSuites.cmake cmake/TransomPlugin.cmake cmake/TransomTests.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/transom)
