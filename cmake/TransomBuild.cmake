# SPDX-License-Identifier: Apache-2.0
# Compiler settings that every target shares, and the functions that declare targets.

find_program(CCACHE ccache)
if(CCACHE)
  # Paths count from the checkout, so that every checkout finds what another has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(transom_warnings INTERFACE)
target_compile_options(transom_warnings INTERFACE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers)

if(TRANSOM_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

if(TRANSOM_SANITIZE_THREADS)
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

if(TRANSOM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

# transom_backend(NAME cpu SOURCES ... LIBRARIES ... [DESCRIPTION file]): a plugin of this tree.
function(transom_backend)
  cmake_parse_arguments(BACKEND "" "NAME" "" ${ARGN})
  transom_plugin(${ARGN})
  target_include_directories(transom_${BACKEND_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/backends)
  target_link_libraries(transom_${BACKEND_NAME} PRIVATE transom_warnings)
endfunction()
