// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/generation.h"

namespace transom {

// generate() of one prompt of a model without an encoder, its tokens with the inputs that fill some of their places.
GenerationOutput generate_prompt(const Model& model, const ModelInputs& prompt, const GenerationConfig& config,
                                 const GenerationOptions& options = {});

}  // namespace transom
