// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/described/option_values.h"
#include "models/shared/blocks/decoder_plan.h"

namespace transom {

// The rotary positions of a layer; none where the layer has none. Parameters that the file does not know are refused.
std::optional<RotaryPlan> described_rotary(const Json& file, const OptionValues& values, int64_t layer,
                                           int64_t head_size);

// What "mscale_all_dim" of stretched positions makes of the scale of scores (DeepSeek-AI, 2024); 1 without it.
double scale_of_stretched_scores(const OptionValues& values);

}  // namespace transom
