// SPDX-License-Identifier: Apache-2.0
// Where the installed program and the golden cases are. Functions of a file of their own: CMake gives it the paths.
#pragma once

#include <string>

namespace transom::test {

std::string program_path();
std::string partner_folder();  // of the project whose tests these are
// The golden cases that a build of the repository wrote (TRANSOM_GOLDEN_CASES, else build/release/golden there); may
// not be there, where a partner's project stands alone.
std::string golden_folder();

}  // namespace transom::test
