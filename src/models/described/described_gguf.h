// SPDX-License-Identifier: Apache-2.0
// The section "gguf" of a family file: its form in llama.cpp's files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "files/family/gguf.h"

namespace transom {

void check_described_gguf(const Json& file, std::vector<std::string>& findings);
// Of a file without findings.
GgufFamily described_gguf(const std::shared_ptr<const Json>& file);

}  // namespace transom
