// SPDX-License-Identifier: Apache-2.0
// The U-Net of a text and its ControlNet in the layout of CompVis' and Stability's files, which AUTOMATIC1111's program
// and ComfyUI have as well.
#pragma once

#include <vector>

#include "files/family/original.h"

namespace transom {

std::vector<OriginalLayout> unet_original();
std::vector<OriginalLayout> controlnet_original();

}  // namespace transom
