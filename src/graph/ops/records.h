// SPDX-License-Identifier: Apache-2.0
// The records that rewrites and the reverse sweep look for or make. Rules that hold for a kind of operations ask the
// traits of the record instead.
#pragma once

#include "graph/ir/operation.h"

namespace transom::op {

extern const Operation &constant, &iota, &random_bits;
extern const Operation &add, &sub, &mul, &div, &select, &cast;
extern const Operation &reshape, &permute, &broadcast, &slice, &pad, &concatenate, &gather;
extern const Operation &reduce_sum, &channels_last_reduce_sum;
extern const Operation& dot_general;
extern const Operation &convolution, &convolution_input_gradient, &convolution_weight_gradient;
extern const Operation &channels_last_convolution, &channels_last_convolution_input_gradient,
    &channels_last_convolution_weight_gradient;
extern const Operation &quantized_linear, &integer_linear, &integer_convolution, &channels_last_integer_convolution;
extern const Operation &max_pool, &sum_pool;
extern const Operation& attention;
extern const Operation& all_reduce;
extern const Operation &stop_gradient, &optimization_barrier, &checkpoint;
extern const Operation &fusion, &row_fusion;

}  // namespace transom::op
