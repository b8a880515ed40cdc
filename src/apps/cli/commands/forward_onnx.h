// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/files/files.h"

namespace transom {

// Named tensors through the graph of an ONNX file: from and to safetensors files, by the names of the graph and in the
// element types that it declares.
void forward_onnx(const fs::path& model, const std::string& inputs, const std::string& outputs);

}  // namespace transom
