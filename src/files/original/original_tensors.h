// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "files/checkpoint/checkpoint.h"
#include "files/family/original.h"

namespace transom {

// A tensor of a file: plain numbers, or a matrix of codes.
struct OriginalTensor {
  TensorView view = {};
  std::shared_ptr<const BlockMatrix> matrix = {};  // null: `view` holds the numbers
};

// Puts tensors under their names in diffusers.
class OriginalNames {
 public:
  explicit OriginalNames(std::vector<OriginalModule> names);
  // `name` is that behind the beginning. A tensor that no rule knows keeps it.
  void add(Checkpoint& checkpoint, const std::string& name, const OriginalTensor& tensor) const;

 private:
  std::map<std::string, std::vector<OriginalModule>, std::less<>> rules_;
};

}  // namespace transom
