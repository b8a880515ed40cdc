// SPDX-License-Identifier: Apache-2.0
// A model as files of ONNX, with dynamic batch sizes and lengths.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "models/onnx/export/check_export.h"
#include "models/onnx/proto/write_model.h"
#include "transom/model.h"

namespace transom::onnx {

struct ExportOptions {
  int64_t opset = 23;      // 18 to 23; below 23 Attention, RMSNormalization and RotaryEmbedding are spelt out
  bool with_past = false;  // of a decoder: keys and values of the tokens so far are inputs, those of all are outputs
  bool external_data = false;                      // weights in a file of their own, whatever their size
  std::function<WrittenModel(WrittenModel)> edit;  // changes the graph of each file before it is written
  // Where it is set, each file is run by the importer at sizes that were not traced, and compared with the model
  // (check_export.h), which throws where it is wrong; this is told what was found.
  std::function<void(const ExportCheck&)> check;
};

// Writes model.onnx, or encoder_model.onnx and decoder_model.onnx, with_past also decoder_with_past_model.onnx and
// decoder_model_merged.onnx (not checked besides the two that it joins), and returns their paths. Inputs, outputs and
// dynamic axes have the names of optimum-onnx. Errors: an operation without a form in ONNX; a model that computes other
// things for other extents. Training and packed weights are not offered.
std::vector<fs::path> export_model(const transom::Model& model, const fs::path& directory,
                                   const ExportOptions& options = {});

}  // namespace transom::onnx
