// SPDX-License-Identifier: Apache-2.0
// Weights that were pruned in blocks: the blocks that are not zero are all that lies on tiles and is multiplied. Which
// they are is known when a program runs, of weights that keep their contents (inference); it is compiled again then.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transom/plugin/types.h"

namespace transom::ipu {

// Which blocks of kBlock x kBlock of a matrix [N, K] are kept, row by row.
struct BlockMask {
  static constexpr int64_t kBlock = 16;
  std::vector<unsigned char> kept;
  size_t count = 0;  // of those that are
  bool operator==(const BlockMask&) const = default;
};

// By input of the graph: whether it is a weight that keeps its contents, of f32 or f16, that "linear" nodes alone read,
// and only as their weight, in whole blocks.
std::vector<bool> prunable_weights(const transom_graph& graph);
// None where more than half of the blocks have a number that is not zero: the dense product is as fast then.
std::optional<BlockMask> blocks_of(const backend::Type& type, const std::byte* weights);
// The blocks that are kept, one after the other, each row by row.
std::vector<std::byte> packed_blocks(const backend::Type& type, const BlockMask& mask, const std::byte* weights);

// A graph with its own copy of all that the host passed, for a second compilation.
class KeptGraph {
 public:
  explicit KeptGraph(const transom_graph& graph);
  ~KeptGraph();
  const transom_graph& view() const;

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

}  // namespace transom::ipu
