// SPDX-License-Identifier: Apache-2.0
// What a node of a compiled graph is called and what it costs at least, for profiles and explanations.
#pragma once

#include <string>

#include "graph/ir/node.h"

namespace transom {

// What its kernel does most, never Category::kByTraits.
Category category_of(const Node& node);
// Bytes that its kernel must read and write at least: every input and output once, of a table only the rows taken.
double bytes_of(const Node& node);
// Multiplications and additions of matrix products and convolutions; 0 for the rest.
double arithmetic_of(const Node& node);
// All floating-point operations, by the record's trait `flops`: those products, one an element for each element-wise
// operation and reduction, and for other composites those of their decomposition.
double operations_of(const Node& node);

// "linear"; a fusion with what it consists of, "fusion(mul add tanh)".
std::string operation_of(const Node& node);
std::string types_of(const Node& node);  // "f32[8, 768], f32[3072, 768] -> f32[8, 3072]"

}  // namespace transom
