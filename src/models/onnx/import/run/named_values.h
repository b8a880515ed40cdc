// SPDX-License-Identifier: Apache-2.0
// Values by name in safetensors files, in all element types that both formats have: also I16, U16, U64, F8_E4M3 and
// F8_E5M2, which our tensors carry in wider ones.
#pragma once

#include "base/files/files.h"
#include "models/onnx/import/run/imported_graph.h"

namespace transom::onnx {

NamedValues read_values(const fs::path& file);

// Refuses types that safetensors does not have. The file appears complete or not at all.
void write_values(const fs::path& file, const NamedValues& values);

}  // namespace transom::onnx
