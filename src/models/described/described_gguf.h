// SPDX-License-Identifier: Apache-2.0
// The section "gguf" of a family file: its form in llama.cpp's files.
#pragma once

#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "files/family/gguf.h"

namespace transom {

void check_described_gguf(const Json& section, std::vector<std::string>& findings);
// Of a section without findings.
GgufFamily described_gguf(const Json& section);

}  // namespace transom
