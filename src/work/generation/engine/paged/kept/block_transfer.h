// SPDX-License-Identifier: Apache-2.0
// Blocks of the KV cache to and from bytes of the host: of a block its keys and values of each layer, then its states.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "models/nn/attention/paged_cache.h"
#include "transom/compile.h"

namespace transom {

class BlockTransfer {
 public:
  // So many blocks go through a program at once.
  static constexpr size_t kAtOnce = 8;

  BlockTransfer(std::vector<KeyValueShape> shapes, int64_t block_size);

  // Of at most kAtOnce blocks, in their order.
  std::vector<std::vector<std::byte>> read(const std::vector<Tensor>& pools, std::span<const int32_t> blocks) const;
  // The pools with these contents of at most kAtOnce blocks; their memory is that of `pools`.
  std::vector<Tensor> write(std::vector<Tensor> pools, std::span<const int32_t> blocks,
                            std::span<const std::vector<std::byte>> contents) const;
  // Pools of this size will not come again.
  void forget() const;

 private:
  // Rows of keys and values, and blocks of states; what is not there is `none`.
  std::vector<Tensor> places_of(std::span<const int32_t> blocks, int64_t none) const;

  const std::vector<KeyValueShape> shapes_;
  const int64_t block_size_;
  std::vector<bool> is_state_;  // of each pool
  CompiledFunction read_, write_;
};

}  // namespace transom
