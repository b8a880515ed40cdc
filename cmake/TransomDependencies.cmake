# SPDX-License-Identifier: Apache-2.0
# What Transom stands on. Configuring installs nothing: what is missing is named together with the command that installs
# it (scripts/setup puts oneDNN into .deps beside the sources). transom_summary() prints the optional parts.

list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_CURRENT_SOURCE_DIR}/.deps/onednn)
set(transom_missing "")

# transom_need(NAME found): remembers a library that is not there, so that one message names all.
macro(transom_need name found)
  if(NOT ${found})
    list(APPEND transom_missing ${name})
  endif()
endmacro()

find_package(PkgConfig QUIET)
transom_need(pkg-config PKG_CONFIG_FOUND)
find_package(Threads REQUIRED)
foreach(package fmt simdjson CURL ZLIB OpenSSL JPEG PNG GIF)
  find_package(${package} QUIET)
  transom_need(${package} ${package}_FOUND)
endforeach()
find_package(yaml-cpp 0.7 QUIET)  # launch files of Accelerate, which the program alone reads
transom_need("yaml-cpp 0.7" yaml-cpp_FOUND)
find_package(nlohmann_json 3.11 QUIET)
transom_need("nlohmann_json 3.11" nlohmann_json_FOUND)
# Headers alone: Beast and Asio, the connections of `transom serve`.
set(Boost_NO_BOOST_CMAKE ON)
find_package(Boost 1.75 QUIET)
transom_need("Boost.Beast 1.75" Boost_FOUND)
find_package(ICU QUIET COMPONENTS uc)
transom_need(ICU ICU_FOUND)
find_package(dnnl 3.2 CONFIG QUIET)
transom_need("oneDNN 3.2" dnnl_FOUND)
# For packages: where files look for libraries does not depend on the folder of the build, not even by its length, if
# all of them lie in the build directory.
if(CMAKE_BUILD_RPATH_USE_ORIGIN AND dnnl_FOUND)
  get_filename_component(onednn_libraries ${dnnl_DIR}/../.. ABSOLUTE)
  file(CREATE_LINK ${onednn_libraries} ${CMAKE_BINARY_DIR}/onednn SYMBOLIC)
  get_target_property(configurations DNNL::dnnl IMPORTED_CONFIGURATIONS)
  foreach(configuration ${configurations})
    get_target_property(file DNNL::dnnl IMPORTED_LOCATION_${configuration})
    get_filename_component(file ${file} NAME)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION_${configuration} ${CMAKE_BINARY_DIR}/onednn/${file})
  endforeach()
endif()
if(PKG_CONFIG_FOUND)
  pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET libpcre2-8)
  transom_need(PCRE2 PCRE2_FOUND)
  pkg_check_modules(SNDFILE QUIET sndfile)
  transom_need(libsndfile SNDFILE_FOUND)
  pkg_check_modules(KISSFFT QUIET kissfft-float)
  transom_need(kissfft KISSFFT_FOUND)
  pkg_check_modules(WEBP QUIET IMPORTED_TARGET libwebp libwebpdemux)
  transom_need(libwebp WEBP_FOUND)
endif()
if(TRANSOM_TESTS)
  find_package(GTest QUIET)
  transom_need(GoogleTest GTest_FOUND)
endif()
if(transom_missing)
  list(JOIN transom_missing ", " transom_missing)
  message(FATAL_ERROR "Transom: not found: ${transom_missing}.\n"
                      "On Debian 12 this command installs all of it:  ${CMAKE_CURRENT_SOURCE_DIR}/scripts/setup\n"
                      "Elsewhere install them, or name their places in CMAKE_PREFIX_PATH; then configure again.")
endif()

# ---- optional parts
if(TRANSOM_CODEGEN)
  find_package(LLVM 19.1 CONFIG QUIET PATHS /usr/lib/llvm-19)
endif()
# Several processes: gloo, and MPI where mpirun launches them. The cpu device does without either.
find_package(Gloo CONFIG QUIET)
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI QUIET COMPONENTS CXX)

# The Python package. nanobind is not in Debian 12: scripts/wheel puts it into .deps/python.
if(TRANSOM_PYTHON)
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
  find_package(nanobind 3.1 CONFIG QUIET PATHS ${CMAKE_CURRENT_SOURCE_DIR}/.deps/python/nanobind/cmake)
  if(NOT Python_FOUND OR NOT nanobind_FOUND)
    message(FATAL_ERROR "TRANSOM_PYTHON: not found: Python 3.10 with its headers, or nanobind 3.1.\n"
                        "This command installs both and builds a wheel:  ${CMAKE_CURRENT_SOURCE_DIR}/scripts/wheel")
  endif()
endif()

# What `transom --version` says is inside.
set(versions "oneDNN ${dnnl_VERSION}, ICU ${ICU_VERSION}, fmt ${fmt_VERSION}, simdjson ${simdjson_VERSION}, PCRE2 ${PCRE2_VERSION}")
string(APPEND versions ", nlohmann/json ${nlohmann_json_VERSION}, OpenSSL ${OPENSSL_VERSION}, zlib ${ZLIB_VERSION_STRING}")
string(APPEND versions ", libjpeg-turbo ${JPEG_VERSION}, libpng ${PNG_VERSION_STRING}, giflib ${GIF_VERSION}")
string(APPEND versions ", libwebp ${WEBP_libwebp_VERSION}, libsndfile ${SNDFILE_VERSION}, KISS FFT ${KISSFFT_VERSION}")
if(TRANSOM_CODEGEN AND LLVM_FOUND)
  string(APPEND versions ", LLVM ${LLVM_PACKAGE_VERSION}")
endif()
set(TRANSOM_VERSION_DEFINITIONS TRANSOM_VERSION="${PROJECT_VERSION}" TRANSOM_LIBRARIES="${versions}"
                                TRANSOM_COMPILER="${CMAKE_CXX_COMPILER_ID}" TRANSOM_PROCESSOR="${CMAKE_SYSTEM_PROCESSOR}")

# transom_part(TEXT found "what is missing without it"): a line of the summary.
function(transom_part text found without)
  string(LENGTH "${text}" length)
  math(EXPR spaces "30 - ${length}")
  string(REPEAT " " ${spaces} spaces)
  if(found)
    message(STATUS "  ${text}${spaces}yes")
  else()
    message(STATUS "  ${text}${spaces}no: ${without}")
  endif()
endfunction()

function(transom_summary)
  message(STATUS "Transom ${PROJECT_VERSION}, optional parts:")
  transom_part("compiled kernels (LLVM 19)" "${LLVM_FOUND}" "fused kernels are interpreted; install llvm-19-dev")
  transom_part("several processes (gloo)" "${Gloo_FOUND}" "torchrun's variables are refused; install libgloo-dev")
  transom_part("several processes (MPI)" "${MPI_CXX_FOUND}" "mpirun uses gloo; install libopenmpi-dev openmpi-bin")
  transom_part("Python package" "${TRANSOM_PYTHON}" "scripts/wheel builds it")
  transom_part("ccache" "${CCACHE}" "every build compiles everything; install ccache")
  transom_part("mold" "${MOLD}" "linking takes longer; install mold")
  transom_part("tests, benches, examples" "${TRANSOM_TESTS}" "-DTRANSOM_TESTS=ON builds them")
endfunction()
