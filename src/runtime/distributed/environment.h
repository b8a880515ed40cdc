// SPDX-License-Identifier: Apache-2.0
// Variables of the environment as launchers set them; one that is empty counts as not set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace transom {

// The most ranks of a job.
constexpr int64_t kMostRanks = 65536;

// Null where it is not set.
const char* variable(const char* name);
// The first of these that is set; empty: none is.
std::string first_text(std::initializer_list<const char*> names);
// Throws an Error of kind kUsage that names the variable where its text is no number from `low` to `high`.
std::optional<int64_t> number(const char* name, int64_t low, int64_t high);
// The same, of a variable that has to be there because `beside` is.
int64_t expected_number(const char* name, const char* beside, int64_t low, int64_t high);

}  // namespace transom
