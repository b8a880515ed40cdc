// SPDX-License-Identifier: Apache-2.0
// How the precision of a model is named.
#pragma once

#include <optional>
#include <string>

#include "transom/dtype.h"

namespace transom {

// "float32", "bfloat16", "float16" and their short names; nothing for "auto". Refuses others, beginning with `where`.
std::optional<DType> parse_precision(const std::string& name, const std::string& where);
// As LoadOptions::quantization names them; refuses others, beginning with `where`.
void check_quantization(const std::string& name, const std::string& where);
// The same of LoadOptions::activations.
void check_activations(const std::string& name, const std::string& where);
// As configurations of Transformers name it.
std::string name_of_precision(DType dtype);

}  // namespace transom
