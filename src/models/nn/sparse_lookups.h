// SPDX-License-Identifier: Apache-2.0
// Which rows of its tables a forward pass uses, for gradients and updates of these rows alone (torch.nn.EmbeddingBag
// with sparse=True).
#pragma once

#include <memory>

#include "transom/model.h"

namespace transom {

// Computing::lookups receives one for each lookup of a model with sparse tables.
// rows [N, D] = table[indices [N]]
struct SparseLookup {
  std::shared_ptr<Parameter> table;
  Tensor indices, rows;
};

}  // namespace transom
