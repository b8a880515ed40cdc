// SPDX-License-Identifier: Apache-2.0
// The characters of \d, \w, \s, \D, \W, \S and of the point, which dialects tell apart differently: é is of \w in
// Python and of \W in ECMA 262.
#pragma once

#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

// Those that are of the kind ('d', 'w', 's', 'D', 'W', 'S', '.') in the dialects of ECMA 262, Python and Rust alike, so
// that a text made of them is valid wherever it is checked.
CodePoints surely_of(char kind);
// Those that are of it in any of these.
CodePoints perhaps_of(char kind);

}  // namespace transom::constraint
