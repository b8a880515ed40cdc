// SPDX-License-Identifier: Apache-2.0
// What the ONNX files of a model take and give, by the names and dynamic axes of optimum-onnx
// (optimum/exporters/onnx/model_configs.py there).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/onnx/export/traces.h"
#include "transom/model.h"

namespace transom::onnx {

// An axis of an input: its name, and its extent at each signature (the same at all: a fixed one).
struct InputAxis {
  std::string name;
  Extent extent;
};
struct FileInput {
  std::string name;
  DType dtype;
  std::vector<InputAxis> axes;
  bool optional = false;  // ones where a caller gives nothing
};

enum class FilePart { kWhole, kEncoder, kDecoder, kDecoderWithPast };

struct ExportedFile {
  std::string name;  // "model.onnx"
  FilePart part = FilePart::kWhole;
  std::vector<FileInput> inputs;
  // Whose keys and values are the last inputs, two a layer. Of an encoder-decoder four a layer: inputs of its
  // kDecoderWithPast, and outputs of its kDecoder.
  int64_t past_layers = 0;
};

// The files of a model. Errors: a model whose inputs are not known here. `with_past`: those of a decoder take and give
// keys and values, and an encoder-decoder has a decoder_with_past_model.onnx besides.
std::vector<ExportedFile> exported_files(const transom::Model& model, bool with_past);
// Whether an output of the model is one of the file's: no losses, no states of layers.
bool is_exported_output(const std::string& name);

}  // namespace transom::onnx
