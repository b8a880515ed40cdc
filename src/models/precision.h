// SPDX-License-Identifier: Apache-2.0
// The precision that belongs to a model: how its name is read, and the scope in which its passes run.
#pragma once

#include <optional>
#include <string>

#include "transom/model.h"
#include "transom/ops.h"

namespace transom {

// Opens what the precision says for the calling thread. A precision of f32 without quantization leaves the thread's own
// Autocast and QuantizedLinear in force.
class PrecisionScope {
 public:
  explicit PrecisionScope(const Precision& precision) {
    if (precision.dtype != DType::kFloat32) autocast_.emplace(precision.dtype);
    if (precision.int8) int8_.emplace();
  }

 private:
  std::optional<Autocast> autocast_;
  std::optional<QuantizedLinear> int8_;
};

// "float32", "bfloat16", "float16" and their short names; nothing for "auto". Refuses others, beginning with `where`.
std::optional<DType> parse_precision(const std::string& name, const std::string& where);
// As LoadOptions::quantization names them; refuses others, beginning with `where`.
void check_quantization(const std::string& name, const std::string& where);
// The same of LoadOptions::activations.
void check_activations(const std::string& name, const std::string& where);
// As configurations of Transformers name it.
std::string name_of_precision(DType dtype);

}  // namespace transom
