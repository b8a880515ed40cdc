// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "files/family/original.h"

namespace transom {

// CLIP's text encoders in single files of Stable Diffusion and FLUX: under Transformers' names, or under OpenCLIP's.
std::vector<OriginalLayout> clip_text_original();

}  // namespace transom
