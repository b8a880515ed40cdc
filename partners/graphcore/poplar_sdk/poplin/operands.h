// SPDX-License-Identifier: Apache-2.0
// Operands of products, of float or half, as floats.
#pragma once

#include <vector>

#include "poplar/Tensor.hpp"
#include "simulator/model.h"

namespace ipu_emulator {

std::vector<float> load_floats(Memory& memory, const poplar::Tensor& tensor);
// Rounds to half where the tensor is of half.
void store_floats(Memory& memory, const std::vector<float>& values, const poplar::Tensor& tensor);

}  // namespace ipu_emulator
