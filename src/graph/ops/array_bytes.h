// SPDX-License-Identifier: Apache-2.0
// Elements as they lie in a buffer, to and from the values that the operation records compute with: of the reference
// device, of certification and of tests.
#pragma once

#include <cstddef>

#include "graph/ir/operation.h"

namespace transom {

// The values of a dense tensor at `bytes`.
Array load_array(const std::byte* bytes, const Type& type);

// Rounds the values to their element type, and writes them.
void store_array(Array& array, std::byte* bytes);

}  // namespace transom
