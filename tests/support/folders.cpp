// SPDX-License-Identifier: Apache-2.0
#include "support/folders.h"

namespace transom::test {

std::string source_folder() { return TRANSOM_SOURCE_DIR; }
std::string build_folder() { return TRANSOM_BINARY_DIR; }

}  // namespace transom::test
