// SPDX-License-Identifier: Apache-2.0
// decoder_model.onnx and decoder_with_past_model.onnx in one file, as optimum-onnx merges them: an If on the input
// use_cache_branch, and each weight once.
#pragma once

#include "models/onnx/proto/write_model.h"

namespace transom::onnx {

// The inputs are those of both and use_cache_branch, bool [1]; the outputs are those of `first`. Where the cache is
// used, what the encoder gave comes back as it came in.
WrittenModel merge_decoders(const WrittenModel& first, const WrittenModel& with_past);

}  // namespace transom::onnx
