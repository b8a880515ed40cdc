// SPDX-License-Identifier: Apache-2.0
// Where family files are: share/transom/families, then the folders of TRANSOM_FAMILIES ("/a:/b").
#pragma once

#include <vector>

#include "files/family/family.h"

namespace transom {

// The families of all files. Throws where a file is no family, naming the file, or a folder of the variable cannot be
// read. `known` are those that are there already: another of the same type or with a class of the same name is refused.
std::vector<Family> described_families(const std::vector<Family>& known);

}  // namespace transom
