# SPDX-License-Identifier: Apache-2.0
# Packages of Debian: `cpack -G DEB` in the build directory (scripts/package does it). What the packages need is found by
# dpkg-shlibdeps; oneDNN, which Debian has not in this version, goes along.
set(CPACK_PACKAGE_NAME transom)
set(CPACK_PACKAGE_VENDOR "Transom")
set(CPACK_PACKAGE_CONTACT "Transom's maintainers <transom@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${onednn_directory}/lib ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4, ca-certificates")
# Licences, the list of parts, ids of the build.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/packages/debian.cmake @ONLY CONTENT [[
execute_process(COMMAND python3 "@CMAKE_CURRENT_SOURCE_DIR@/packaging/debian.py" "@CMAKE_BINARY_DIR@"
                        "${CPACK_TEMPORARY_INSTALL_DIRECTORY}" COMMAND_ERROR_IS_FATAL ANY)
]])
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_BINARY_DIR}/packages/debian.cmake)
include(CPack)
