// SPDX-License-Identifier: Apache-2.0
// Which options of `transom quantize` go together, and which formats can hold which model.
#pragma once

#include <string>

#include "files/blocks/quantized_writer.h"
#include "models/compression/quantize.h"

namespace transom {

// Of a GGUF file, as llama.cpp names it.
std::string gguf_type_of(const QuantizeOptions& options);

// Throws kUsage, naming the option, for what does not go together.
void check_quantize_options(const QuantizeOptions& options);
// Throws kUnsupported for a file that the format's own library could not read.
void check_quantized_format(const Model& model, QuantizedFormat format, const QuantizeOptions& options);

}  // namespace transom
