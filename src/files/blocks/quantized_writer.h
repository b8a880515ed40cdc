// SPDX-License-Identifier: Apache-2.0
// Matrices of codes in the forms that GPTQ, AWQ and compressed-tensors store them; read back by quantization_config.h.
#pragma once

#include <map>
#include <string>

#include "base/json/json_fwd.h"
#include "files/blocks/block_matrix.h"
#include "files/blocks/integer_codes.h"

namespace transom {

enum class QuantizedFormat { kGptq, kAwq, kCompressedTensors };

// "gptq", "awq", "compressed-tensors"; refuses others, beginning with `where`.
QuantizedFormat parse_quantized_format(const std::string& name, const std::string& where);

// Adds the tensors X.qweight and the like of module X. The matrix has no minima and no values; AWQ wants 4 bits and
// outputs in eights, GPTQ inputs that fill whole words; only GPTQ has an order of inputs. What does not fit is an error
// that names the module.
void write_codes(const BlockMatrix& matrix, QuantizedFormat format, const std::string& module, NamedViews& tensors);
// Whether it would fit.
bool can_write_codes(const BlockLayout& layout, QuantizedFormat format);

// quantization_config of config.json for AWQ and compressed-tensors; gptq_config.h has GPTQ's. `group` 0: whole rows.
// `ignored` are modules of Linear that stay as they are.
Json quantization_config_of(QuantizedFormat format, int bits, int64_t group, const std::vector<std::string>& ignored);

// Of compressed-tensors with 4 or 8 bits for each of these modules.
Json mixed_config_of(const std::map<std::string, int>& bits, int64_t group, const std::vector<std::string>& ignored);

// Of matrices of 8 bits with a scale for each row, whose inputs are rounded by token.
Json w8a8_config_of(const std::vector<std::string>& ignored);

// X.weight, X.weight_scale, X.input_scale and X.input_zero_point of module X, a linear layer or a convolution.
void write_integers(const IntegerCodes& codes, const std::string& module, NamedViews& tensors);
// Of such modules: one scale for each output, and one for all inputs of a layer.
Json static_config_of(const std::vector<std::string>& ignored, bool convolutions);

}  // namespace transom
