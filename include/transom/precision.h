// SPDX-License-Identifier: Apache-2.0
// In which numbers a model holds its weights and computes.
#pragma once

#include <optional>

#include "transom/dtype.h"
#include "transom/one_of.h"

namespace transom {

// "auto": the type that config.json names, else that of the checkpoint; "float32" (or fp32, f32), "bfloat16" (bf16),
// "float16" (fp16, f16).
enum class ModelDType { kAuto, kFloat32, kBFloat16, kFloat16 };
// Nothing for kAuto.
std::optional<DType> dtype_of(ModelDType type);

// "none"; "int8": linear layers round weights and inputs to 8-bit integers; "int8_channel": linear layers hold their
// weights as 8-bit integers with a scale for each output, and compute in the type of the model; "nf4", "fp4": the same
// with the 4-bit codes of bitsandbytes and a scale for each 64. All are for inference, or frozen beside adapters.
// "decompressed": compressed weights (GGUF, GPTQ, AWQ ...) become plain ones, which can be trained.
enum class Quantization { kNone, kInt8, kInt8Channel, kNf4, kFp4, kDecompressed };

// How products with compressed weights read inputs: "float32"; "static": rounded by the scales that the checkpoint
// holds, where it does; "int8": as the checkpoint says, in 8 bits where its format allows; "fastest": the fastest form
// that the format allows, which may be 8 or 16 bits; "float8": in f8_e4m3fn with a scale for each row, of checkpoints
// whose codes are f8_e4m3fn.
enum class Activations { kFloat32, kStatic, kInt8, kFastest, kFloat8 };

const OptionNames<ModelDType>& option_names(ModelDType);
const OptionNames<Quantization>& option_names(Quantization);
const OptionNames<Activations>& option_names(Activations);

}  // namespace transom
