// SPDX-License-Identifier: Apache-2.0
// What one exported file computes, done by the model itself: to be traced, and to compare a runtime's answers with.
#pragma once

#include "models/onnx/export/task_inputs.h"
#include "transom/model.h"

namespace transom::onnx {

// The outputs of the file by their names in it, for inputs by theirs.
NamedTensors run_file(const transom::Model& model, const ExportedFile& file, const NamedTensors& inputs);

}  // namespace transom::onnx
