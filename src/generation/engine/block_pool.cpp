// SPDX-License-Identifier: Apache-2.0
#include "generation/engine/block_pool.h"

namespace transom {

BlockPool::BlockPool(int64_t blocks) : blocks_(static_cast<size_t>(blocks)) {
  for (int64_t i = 0; i < blocks; ++i) {
    Block& block = blocks_[static_cast<size_t>(i)];
    block.name = names_.end();
    block.place = unused_.insert(unused_.end(), i);
  }
}

int64_t BlockPool::take() {
  if (unused_.empty()) return -1;
  const int64_t index = unused_.front();
  unused_.pop_front();
  Block& block = blocks_[static_cast<size_t>(index)];
  if (block.name != names_.end()) names_.erase(block.name);
  block.name = names_.end();
  block.references = 1;
  return index;
}

void BlockPool::release(int64_t index) {
  Block& block = blocks_.at(static_cast<size_t>(index));
  if (--block.references > 0) return;
  block.place = unused_.insert(block.name == names_.end() ? unused_.begin() : unused_.end(), index);
}

int64_t BlockPool::find(PrefixId& prefix, std::span<const int64_t> tokens) {
  const auto found = names_.find({prefix, {tokens.begin(), tokens.end()}});
  if (found == names_.end()) return -1;
  Block& block = blocks_[static_cast<size_t>(found->second.block)];
  if (block.references++ == 0) unused_.erase(block.place);
  prefix = found->second.prefix;
  return found->second.block;
}

void BlockPool::name(int64_t index, PrefixId& prefix, std::span<const int64_t> tokens) {
  const auto [place, made] = names_.try_emplace({prefix, {tokens.begin(), tokens.end()}}, Named{index, last_ + 1});
  if (made) {
    ++last_;
    blocks_.at(static_cast<size_t>(index)).name = place;
  }
  prefix = place->second.prefix;
}

void BlockPool::clear() {
  names_.clear();
  for (Block& block : blocks_) block.name = names_.end();
}

}  // namespace transom
