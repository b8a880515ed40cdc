// SPDX-License-Identifier: Apache-2.0
// What a profile found, as a table for people.
#pragma once

#include <string>

#include "runtime/programs/profile.h"

namespace transom {

// Where the time went, then the `rows` kernels that took longest: calls, time, share of the time inside kernels, rate.
std::string profile_table(Profile& profile, size_t rows = 40);

// Refuses a file that could not be written in the end, before the work begins: its folder must be there, and it no
// folder.
void expect_writable(const std::string& file);

}  // namespace transom
