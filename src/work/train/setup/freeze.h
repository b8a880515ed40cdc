// SPDX-License-Identifier: Apache-2.0
// Parameters that training leaves as they are: those that require no gradient.
#pragma once

#include <string_view>

#include "transom/model.h"

namespace transom {

// All parameters whose names begin with `prefix`.
void freeze(Model& model, std::string_view prefix);
// The convolutions that make the frames of a speech model (freeze_feature_encoder() of Transformers).
void freeze_feature_encoder(Model& model);

}  // namespace transom
