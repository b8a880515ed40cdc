// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "models/onnx/import/run/operators.h"
#include "transom/ops.h"

namespace transom::onnx {

// An activation by the name that recurrent operators use, in capitals or not; others are refused.
Tensor activation_of(const Call& call, std::string_view name, const Tensor& x, double alpha, double beta);

}  // namespace transom::onnx
