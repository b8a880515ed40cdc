// SPDX-License-Identifier: Apache-2.0
// Values in float64 beside their bytes on a device, and graphs computed from the operation records alone.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/device/device.h"

namespace transom::certify {

// The bytes of the values, rounded to the element type first: the array then holds what the device is given.
std::vector<std::byte> encode(Array& array);

// The outputs of a graph by the records' float64, no intermediate value rounded; composites by their decomposition.
std::vector<Array> evaluate(const Graph& graph, std::span<const Array> inputs);

// The outputs of a graph as the device computes it, through the whole compiler. With `donate` the inputs are given
// away.
std::vector<Array> run_on(const std::shared_ptr<Device>& device, const Graph& graph, std::span<Array> inputs,
                          bool donate = false);

// f16 or bf16.
bool is_half(DType dtype);

// The distance from |x| to the next number of the element type; of the least normal number below that.
double ulp(double x, DType dtype);

}  // namespace transom::certify
