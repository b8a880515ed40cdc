// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "files/family/original.h"

namespace transom {

// FLUX.1's transformer in Black Forest Labs' files, in ComfyUI's, and in GGUF.
std::vector<OriginalLayout> flux_original();

}  // namespace transom
