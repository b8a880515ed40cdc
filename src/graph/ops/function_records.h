// SPDX-License-Identifier: Apache-2.0
// Further records that rewrites look for, beside those of records.h: functions, norms, and what they are made of.
#pragma once

#include "graph/ir/operation.h"

namespace transom::op {

extern const Operation &exp, &pow, &sqrt, &rsqrt, &tanh, &erf, &not_equal;
extern const Operation& reduce_max;
extern const Operation &softmax, &layer_norm, &rms_norm, &gelu, &gelu_tanh;

}  // namespace transom::op
