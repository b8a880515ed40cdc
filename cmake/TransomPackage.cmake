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
include(CPack)
