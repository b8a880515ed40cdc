// SPDX-License-Identifier: Apache-2.0
// The body that a DecoderPlan describes.
#pragma once

#include <memory>

#include "models/shared/blocks/decoder_plan.h"

namespace transom {

// An input beside inputs_embeds, [B, T, blocks D]: what is added behind each of the first blocks (DeepStack, Meng et
// al., 2024).
inline constexpr char kAddedBehindBlocks[] = "added_behind_blocks";

// Refuses a plan whose numbers do not go together, by the name of the number.
std::unique_ptr<Decoder> make_planned_decoder(DecoderPlan plan, const Scope& scope);

// The plan of a body that was made so; null: it was not.
const DecoderPlan* plan_of(const Decoder& body);

}  // namespace transom
