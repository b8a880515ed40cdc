// SPDX-License-Identifier: Apache-2.0
// Which files of a directory hold the weights that are read.
#pragma once

#include <vector>

#include "base/files/files.h"

namespace transom {

// The files that Checkpoint::open reads of a directory, in one format alone where it has several; with a file, that
// file and, if it is the first part of a GGUF in several, the others. Nothing is read but indices. Empty where there
// are none.
std::vector<fs::path> weight_files(const fs::path& path);

}  // namespace transom
