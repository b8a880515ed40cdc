// SPDX-License-Identifier: Apache-2.0
// Where a token that stands for an input is in a text, and which of its places each input fills.
#pragma once

#include <span>
#include <vector>

#include "transom/model_inputs.h"

namespace transom {

class TokenPlaces {
 public:
  TokenPlaces(std::span<const int64_t> text, int64_t token);
  int64_t left() const { return static_cast<int64_t>(places_.size() - next_); }
  // The next ones in order, as runs; there are so many left.
  std::vector<FilledPlaces> take(int64_t count);

 private:
  std::vector<int64_t> places_;
  size_t next_ = 0;
};

}  // namespace transom
