// SPDX-License-Identifier: Apache-2.0
// Elements as they lie in a buffer, to and from the values that the operation records compute with.
#pragma once

#include <cstddef>

#include "ir/operation.h"

namespace transom::reference {

// The values of a dense tensor at `bytes`.
Array load(const std::byte* bytes, const Type& type);

// Rounds the values to their element type, and writes them.
void store(Array& array, std::byte* bytes);

}  // namespace transom::reference
