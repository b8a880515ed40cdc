// SPDX-License-Identifier: Apache-2.0
// What one exported file computes, done by the model itself: to be traced, and to compare a runtime's answers with.
#pragma once

#include "onnx/export/task_inputs.h"
#include "transom/model.h"

namespace transom::onnx {

// What run_file() calls the logits [B, V] behind the last token.
inline constexpr const char* kLastLogits = "last_logits";

// The outputs of the file by their names in it, for inputs by theirs; of the decoder of an encoder-decoder kLastLogits.
NamedTensors run_file(const Model& model, const ExportedFile& file, const NamedTensors& inputs);

// A pass of a decoder that goes on from past_key_values.N.key, .value [B, G, P, d] of so many layers, and gives
// present.N.key, .value of all tokens besides its logits.
NamedTensors run_with_past(const Model& model, int64_t layers, const NamedTensors& inputs);

}  // namespace transom::onnx
