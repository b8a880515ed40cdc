// SPDX-License-Identifier: Apache-2.0
// Functions that kernels call: conversions, the functions of one f32 (from the lines that the cpu device computes with,
// common/float_functions.inc, so that both give the same bits), Philox.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace transom::gpu {

// The text of these functions and of what they call, each before its callers.
std::string definitions(const std::set<std::string, std::less<>>& names);

}  // namespace transom::gpu
