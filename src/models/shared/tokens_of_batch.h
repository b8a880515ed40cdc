// SPDX-License-Identifier: Apache-2.0
// What the layers of a model see of a batch: all places of its rows, or, with token_places, the tokens alone that are
// no padding. B batch, T time, N tokens, D hidden.
#pragma once

#include "transom/model.h"

namespace transom {

class TokensOfBatch {
 public:
  explicit TokensOfBatch(const NamedTensors& inputs);

  // Of the body: with token_places, its tokens are [1, N]. Their mask, too, which has 0 for those that only fill it up.
  const NamedTensors& inputs() const { return inputs_; }
  bool without_padding() const { return places_.defined(); }
  // [B, T, ...] -> [1, N, ...], or x itself where no padding is taken out.
  Tensor taken(const Tensor& x) const;
  // [1, N, D] -> [B, T, D] with 0 for padding, or x itself.
  Tensor in_place(const Tensor& x) const;

 private:
  NamedTensors inputs_;
  Tensor places_;  // [N]
  int64_t batch_ = 0, length_ = 0;
};

}  // namespace transom
