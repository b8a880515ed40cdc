// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/described/option_values.h"
#include "models/shared/blocks/decoder_plan.h"

namespace transom {

// The layer that stands in place of attention in that block, by the section decoder.mixer of a family's file; nothing
// where the block has attention. `plan` has width, norm and deviation.
std::optional<StateMixerPlan> described_mixer(const Json& file, const OptionValues& values, int64_t layer,
                                              const DecoderPlan& plan);

}  // namespace transom
