// SPDX-License-Identifier: Apache-2.0
// Collectives between the replicas of a graph. All replicas have the same program; a graph of one replica keeps its
// data as they are.
#pragma once

#include <string>

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace gcl {

enum class CollectiveOperator { ADD, MEAN, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOCAL };

// Half, float, int, unsigned int and long long; ADD, MEAN, MUL, MIN and MAX. Sums of half are rounded once, and are the
// same bits on all replicas.
poplar::Tensor allReduceCrossReplica(poplar::Graph& graph, const poplar::Tensor& data, CollectiveOperator op,
                                     poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                                     const poplar::OptionFlags& options = {});
void allReduceInPlaceCrossReplica(poplar::Graph& graph, poplar::Tensor& data, CollectiveOperator op,
                                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                                  const poplar::OptionFlags& options = {});
// [n] to [n / replicas]: a replica gets its part of the sums. Refuses n that the replicas do not divide.
poplar::Tensor reduceScatterCrossReplica(poplar::Graph& graph, const poplar::Tensor& data, CollectiveOperator op,
                                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                                         const poplar::OptionFlags& options = {});
// [...] to [replicas, ...], of any type.
poplar::Tensor allGatherCrossReplica(poplar::Graph& graph, const poplar::Tensor& data, poplar::program::Sequence& prog,
                                     const poplar::DebugContext& debugContext = {},
                                     const poplar::OptionFlags& options = {});

}  // namespace gcl
