// SPDX-License-Identifier: Apache-2.0
// A tensor of a checkpoint that lies in a GGUF file in other rows or columns, or in several tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/checkpoint/checkpoint.h"

namespace transom {

// Rows of one tensor of the file: plain numbers, or a matrix of codes.
struct GgufPart {
  TensorView view = {};
  std::shared_ptr<const BlockMatrix> matrix = {};  // null: `view` holds the numbers
  std::vector<int64_t> rows;                       // the place of each row in the whole
  std::string where;                               // for errors
};

// Puts the parts together and adds the tensor: as they are where they are of one type, else in float32. `columns`: the
// place of each column; empty: as they are. Rows or columns that do not make a whole are an error.
void add_gguf_parts(Checkpoint& checkpoint, const std::string& name, std::vector<GgufPart> parts,
                    const std::vector<int64_t>& columns);

}  // namespace transom
