// SPDX-License-Identifier: Apache-2.0
// The pictures of an explanation, each one SVG element for a page. What lies under the pointer says its name.
#pragma once

#include "tools/explain/explanation.h"

namespace transom {

std::string timeline_picture(const Explanation& explanation);  // kernels by kind over the time of one run
std::string memory_picture(const Explanation& explanation);    // live bytes over the nodes, and the arena's size
std::string arena_picture(const Explanation& explanation);     // each value's place and lifetime
std::string roofline_picture(const Explanation& explanation);  // kernels by operations a byte and operations a second

}  // namespace transom
