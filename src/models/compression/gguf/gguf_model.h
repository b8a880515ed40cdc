// SPDX-License-Identifier: Apache-2.0
// Writes a model as one GGUF file, as llama.cpp's converter and quantiser write it.
#pragma once

#include "models/compression/quantize.h"

namespace transom {

// The types that a file may have: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q6_K, and the mixtures q4_K_S, q4_K_M,
// q5_K_S and q5_K_M, in any case. Others are an error that names the flag.
void check_gguf_type(const std::string& type);

// Matrices get the type's blocks, heads and some layers of a mixture finer ones; rows that are no whole blocks of 256
// numbers get a type with blocks of 32. Vectors and positions stay f32. `tokenizer` is a directory with tokenizer.json;
// without it the file has no vocabulary. Tensors are made one by one.
QuantizeReport write_gguf_model(const Model& model, const std::string& tokenizer, const std::string& path,
                                const std::string& type,
                                const std::function<void(int64_t, int64_t, const std::string&)>& on_layer);

}  // namespace transom
