// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/onnx/proto/model.h"
#include "models/onnx/proto/write_model.h"

namespace transom::onnx {

// A model that was read, to be changed and written: constants of nodes become initializers. Refuses what a written
// model does not hold: graphs in attributes (If, Loop, Scan), functions, operators of other domains, element types that
// no tensor has exactly, inputs and outputs that are no tensors or of unknown rank.
WrittenModel model_to_write(const Model& model);

}  // namespace transom::onnx
