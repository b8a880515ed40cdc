// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/media/hidden_blocks.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace transom {

HiddenBlocks::HiddenBlocks(std::array<int64_t, 2> size, int64_t patch, int64_t block, double ratio,
                           const std::string& where) {
  if (patch < 1 || block % patch != 0)
    fail(ErrorKind::kUsage, "--mask_patch_size: expected a multiple of the {} pixels of a patch of {}, found {}", patch,
         where, block);
  if (size[0] % block != 0 || size[1] % block != 0)
    fail(ErrorKind::kUsage, "--mask_patch_size: expected a divisor of {} x {}, the size of pictures, found {}", size[0],
         size[1], block);
  rows_ = size[0] / block, columns_ = size[1] / block, scale_ = block / patch;
  hidden_ = static_cast<int64_t>(std::ceil(static_cast<double>(rows_ * columns_) * ratio));
}

void HiddenBlocks::draw(Mt19937& random, float* patches) const {
  std::fill_n(patches, this->patches(), 0.F);
  const auto order = random.randperm(rows_ * columns_);
  for (int64_t i = 0; i < hidden_; ++i) {
    const int64_t place = order[static_cast<size_t>(i)], row = place / columns_ * scale_,
                  column = place % columns_ * scale_;
    for (int64_t inner = 0; inner < scale_; ++inner)
      std::fill_n(patches + (row + inner) * columns_ * scale_ + column, scale_, 1.F);
  }
}

}  // namespace transom
