// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "files/family/original.h"

namespace transom {

// Stable Diffusion 3's transformer in Stability's files, in ComfyUI's, and in GGUF.
std::vector<OriginalLayout> sd3_original();

}  // namespace transom
