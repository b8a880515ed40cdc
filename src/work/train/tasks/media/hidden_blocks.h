// SPDX-License-Identifier: Apache-2.0
// Which patches of a picture are hidden where the batch says it (SimMIM, run_mim of Transformers): squares of several
// patches, so that what is hidden does not follow from its neighbours alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/numbers/mt19937.h"

namespace transom {

class HiddenBlocks {
 public:
  // Of pictures of height x width pixels, in patches of `patch` pixels; blocks have edges of `block` pixels, of which
  // a part of `ratio`, rounded up, is hidden. Refuses edges that do not divide each other; `where` names the model.
  HiddenBlocks(std::array<int64_t, 2> size, int64_t patch, int64_t block, double ratio, const std::string& where);

  int64_t patches() const { return rows_ * columns_ * scale_ * scale_; }
  // 1 for each hidden patch, else 0, by rows; `patches` has patches() places.
  void draw(Mt19937& random, float* patches) const;

 private:
  int64_t rows_, columns_;  // of blocks
  int64_t scale_;           // patches on the edge of a block
  int64_t hidden_;          // blocks
};

}  // namespace transom
