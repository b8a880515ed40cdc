// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/shared/blocks/decoder_plan.h"
#include "models/shared/rope_decoder.h"

namespace transom {

// What make_rope_decoder() makes, for families that change something of it.
DecoderPlan rope_decoder_plan(const RopeDecoderConfig& config);

}  // namespace transom
