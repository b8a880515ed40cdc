# SPDX-License-Identifier: Apache-2.0
# What the library exports. The symbols of the public headers, listed in transom.symbols, have the version TRANSOM_0.1;
# those that only the program, tests and benches of this tree use have TRANSOM_PRIVATE, which may change at any time.
# Everything else is local: instantiations of the standard library and of libraries that are linked in do not meet
# those of other libraries in one process.

function(transom_export_symbols target)
  set(list ${CMAKE_CURRENT_SOURCE_DIR}/cmake/transom.symbols)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} symbols REGEX "^(_Z|transom_)")
  list(JOIN symbols ";\n    " symbols)
  set(script ${CMAKE_BINARY_DIR}/transom.version)
  file(CONFIGURE OUTPUT ${script} @ONLY CONTENT "TRANSOM_0.1 {
  global:
    @symbols@;
};
TRANSOM_PRIVATE {
  global:
    _ZN7transom*;
    _ZNK7transom*;
    _ZNR7transom*;
    _ZNO7transom*;
    _ZNKR7transom*;
    _ZNKO7transom*;
    _ZT?N7transom*;
    _ZGVN*7transom*;
  local:
    *;
};
")
  target_link_options(${target} PRIVATE LINKER:--version-script=${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()
