// SPDX-License-Identifier: Apache-2.0
// Products of a dense matrix with one that is kept as its blocks which are not zero.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace popsparse::experimental {

class BSMatMulImpl;

class BSMatMulParams {
 public:
  // A dense matrix [dim[0], dim[1]] times a sparse one [dim[1], dim[2]], in blocks of blockSize[0] x blockSize[1] and
  // blockSize[1] x blockSize[2], which divide the extents; the last two are multiples of 16 (half) or 8 (float).
  // `rhsSparsity` has a 1 for each block of the right matrix that is kept, row by row. With `rhsNeedTranspose` the
  // right matrix and its mask are [dim[2], dim[1]], in blocks of blockSize[2] x blockSize[1], as they were before they
  // were transposed. Groups are not emulated.
  BSMatMulParams(const std::array<int, 3>& dim, const std::array<int, 3>& blockSize,
                 const std::vector<unsigned char>& rhsSparsity, bool rhsNeedTranspose, poplar::Type inDataType,
                 poplar::Type outDataType, poplar::Type partialDataType, unsigned numGroupsIn = 1);
  BSMatMulParams(BSMatMulParams&& other);
  ~BSMatMulParams();

  std::unique_ptr<BSMatMulImpl> impl;
};

// [dim[0], dim[1]].
poplar::Tensor createBSMatMulInputLHS(poplar::Graph& graph, const BSMatMulParams& bsMatMul, const std::string& name);
// [blocks that are kept, elements of a block].
poplar::Tensor createBSMatMulInputRHS(poplar::Graph& graph, const BSMatMulParams& bsMatMul, const std::string& name);

// [dim[0], dim[2]].
poplar::Tensor bsMatMul(poplar::Graph& graph, const BSMatMulParams& bsMatMul, poplar::program::Sequence& prog,
                        const poplar::Tensor& lhsMatrix, const poplar::Tensor& rhsMatrix,
                        const poplar::OptionFlags& options = {}, const std::string& debugPrefix = "");

}  // namespace popsparse::experimental
