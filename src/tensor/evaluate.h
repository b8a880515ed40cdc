// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/device.h"
#include "transom/tensor.h"

namespace transom {

// The buffer of a tensor, computed now if need be.
std::shared_ptr<Buffer> buffer_of(const Tensor& tensor);

}  // namespace transom
