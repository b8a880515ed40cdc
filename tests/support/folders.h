// SPDX-License-Identifier: Apache-2.0
// Where the sources and the build are. Functions of a library of their own: a path in each compilation would keep one
// checkout from using what another has compiled.
#pragma once

#include <string>

namespace transom::test {

std::string source_folder();
std::string build_folder();

}  // namespace transom::test
