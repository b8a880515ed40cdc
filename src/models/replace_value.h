// SPDX-License-Identifier: Apache-2.0
// A new value for a parameter. Whether a parameter is trained is a mark of its value (`requires_grad`), so that an
// assignment loses it without a word.
#pragma once

#include <utility>

#include "transom/model.h"

namespace transom {

// The parameter holds `value`, and is trained where it was.
inline void replace_value(Parameter& parameter, Tensor value) {
  const bool trained = parameter.value.requires_grad();
  parameter.value = std::move(value);
  parameter.value.set_requires_grad(trained);
}

}  // namespace transom
