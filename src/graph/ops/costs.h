// SPDX-License-Identifier: Apache-2.0
// What nodes cost and how far devices may be from the reference: values of these traits that several records share.
#pragma once

#include "graph/ir/operation.h"

namespace transom {

// Bounds of error.
constexpr ErrorBounds kSumError{{ErrorScale::kTerms, 0.5}, {ErrorScale::kTerms, 1}};  // sums of many terms
constexpr ErrorBounds kRoundedError{{ErrorScale::kElement, 0.5}, {ErrorScale::kElement, 0.5}};
constexpr ErrorBounds kDivisionError{{ErrorScale::kElement, 1}, {ErrorScale::kElement, 1}};
constexpr ErrorBounds kFunctionError{{ErrorScale::kElement, 4}, {ErrorScale::kElement, 1}};  // exp, tanh and their like
constexpr ErrorBounds kExactError{};

// Floating-point operations.
double no_flops(const CostRequest& cost);
double flops_of_reduction(const CostRequest& cost);  // one for each element of the input
double flops_of_convolution(const CostRequest& cost);
double flops_of_input_gradient(const CostRequest& cost);   // of a convolution
double flops_of_weight_gradient(const CostRequest& cost);  // of a convolution

// Of a table only what is taken from it: read and written once.
double bytes_of_taken(const CostRequest& cost);

}  // namespace transom
