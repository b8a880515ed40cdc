// SPDX-License-Identifier: Apache-2.0
// Whether exported files compute what the model computes: the importer runs them at sizes that were not traced.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "models/onnx/export/task_inputs.h"
#include "transom/model.h"

namespace transom::onnx {

struct ExportCheck {
  std::string file, output;  // the output that differs most
  std::string sizes;         // "batch_size 4, sequence_length 12", at which it does
  double difference = 0;     // the largest, as a part of the output's largest value
  int passes = 0;            // sizes that were tried
};

// Runs a file on random inputs at three sizes. Throws Error if an output differs by more than rounding explains: 1e-3
// of its largest value, of 16-bit weights 5e-2; or if an output is missing or has another shape.
ExportCheck check_file(const transom::Model& model, const ExportedFile& file, const fs::path& path);

}  // namespace transom::onnx
