// SPDX-License-Identifier: Apache-2.0
#include "poplin/operands.h"

#include <cstring>

#include "simulator/rounding.h"

namespace ipu_emulator {

std::vector<float> load_floats(Memory& memory, const poplar::Tensor& tensor) {
  std::vector<float> values(tensor.numElements());
  if (tensor.elementType() == poplar::FLOAT) {
    read_tensor(memory, tensor, values.data());
    return values;
  }
  const Access halves(memory, tensor, true, false);
  for (size_t i = 0; i < values.size(); ++i) values[i] = from_half(halves.as<uint16_t>()[i]);
  return values;
}

void store_floats(Memory& memory, const std::vector<float>& values, const poplar::Tensor& tensor) {
  const Access to(memory, tensor, false, true);
  if (tensor.elementType() == poplar::FLOAT) {
    std::memcpy(to.data(), values.data(), values.size() * sizeof(float));
  } else {
    Rounding rounding(memory);
    for (size_t i = 0; i < values.size(); ++i) to.as<uint16_t>()[i] = rounding(values[i]);
  }
}

}  // namespace ipu_emulator
