// SPDX-License-Identifier: Apache-2.0
// What prompt learning puts before each row: vectors in place of tokens, or keys and values of each layer.
#pragma once

#include <cstdint>
#include <vector>

#include "models/nn/attention/cache.h"

namespace transom {

class VirtualTokens {
 public:
  virtual ~VirtualTokens() = default;
  virtual int64_t count() const = 0;  // n

  // [n, D], as inputs_embeds has them; undefined where keys and values are what it gives.
  virtual Tensor embeddings(ForwardContext& context) const = 0;
  // Of each layer [1, n, G, d]; empty where vectors are what it gives.
  virtual std::vector<KeysAndValues> keys_and_values(ForwardContext& context) const = 0;
  // What PEFT's file holds under "prompt_embeddings", and reads without anything that made it.
  virtual Tensor saved() const = 0;
};

}  // namespace transom
