// SPDX-License-Identifier: Apache-2.0
// Where a token that stands for an input is in a text, and which of its places each input fills.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "transom/model_inputs.h"

namespace transom {

// The tokens of a text beside those that are `token`, as an input of their own for models that read all of a prompt at
// once; `counted` leaves out places, empty: none. Null where there are no others.
std::optional<AttachedInput> tokens_beside(std::span<const int64_t> text, int64_t token,
                                           const std::vector<bool>& counted = {});

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
