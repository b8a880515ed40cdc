// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/model.h"

namespace transom {

// The pass of a model that is a part of another one: in the precision, and for the trace, of the pass around it.
NamedTensors run_inside(const Model& part, const NamedTensors& inputs, ForwardContext& context);

}  // namespace transom
