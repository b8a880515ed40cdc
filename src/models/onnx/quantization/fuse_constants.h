// SPDX-License-Identifier: Apache-2.0
// The form of a float graph that integer compilers expect: constants computed, batch norms and biases inside of their
// convolutions, Relu and GlobalAveragePool as one node each. Changes results by rounding alone.
#pragma once

#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/quantization/edited_graph.h"

namespace transom::onnx {

// `sample`: inputs of the graph; values that do not depend on them are computed once.
void fuse_constants(EditedGraph& graph, const NamedValues& sample);

}  // namespace transom::onnx
