// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transom/dtype.h"

namespace transom {

// The values of a tensor in host memory, dense and row-major; `owner` keeps them alive.
struct TensorView {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

using NamedViews = std::vector<std::pair<std::string, TensorView>>;

}  // namespace transom
