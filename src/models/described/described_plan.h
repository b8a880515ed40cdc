// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json/json_fwd.h"
#include "models/shared/blocks/decoder_plan.h"
#include "transom/config.h"

namespace transom {

// The decoder that a family file describes, for one configuration. Fields of the configuration that the file does not
// know and that are not those of every configuration are refused, as are values that it fixes otherwise.
DecoderPlan described_plan(const Json& file, const Config& config);

}  // namespace transom
