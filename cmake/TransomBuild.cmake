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

# transom_backend(NAME cpu SOURCES ... LIBRARIES ...): the plugin libtransom_<name>.so.
function(transom_backend)
  cmake_parse_arguments(BACKEND "" "NAME" "SOURCES;LIBRARIES" ${ARGN})
  add_library(transom_${BACKEND_NAME} MODULE ${BACKEND_SOURCES})
  target_include_directories(transom_${BACKEND_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/backends)
  target_link_libraries(transom_${BACKEND_NAME} PRIVATE transom_warnings ${BACKEND_LIBRARIES})
  set_target_properties(transom_${BACKEND_NAME} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/transom)
  install(TARGETS transom_${BACKEND_NAME} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/transom)
endfunction()
