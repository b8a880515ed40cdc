// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "poplar/Graph.hpp"

namespace poputil {

// Spreads the elements evenly over the tiles, in order: no tile has less than `minElementsPerTile`, and what is on one
// is a multiple of `grainSize`.
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& t, unsigned minElementsPerTile, unsigned grainSize);
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& t);
// The first of them is the tile `offset`; behind the last tile comes the first one.
void mapTensorLinearlyWithOffset(poplar::Graph& graph, const poplar::Tensor& t, unsigned minElementsPerTile,
                                 unsigned grainSize, unsigned offset, bool ascending = true);

}  // namespace poputil
