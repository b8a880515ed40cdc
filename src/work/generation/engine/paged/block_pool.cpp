// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/block_pool.h"

#include <iterator>

namespace transom {

BlockPool::BlockPool(int64_t blocks) { grow(blocks); }

void BlockPool::grow(int64_t blocks) {
  const int64_t old = size();
  blocks_.resize(static_cast<size_t>(old + blocks));
  // Behind those that hold nothing, in their order.
  const auto named = std::next(unused_.begin(), blank_);
  for (int64_t i = old; i < old + blocks; ++i) {
    Block& block = blocks_[static_cast<size_t>(i)];
    block.name = names_.end();
    block.place = unused_.insert(named, i);
  }
  blank_ += blocks;
}

int64_t BlockPool::take() {
  if (unused_.empty()) return -1;
  const int64_t index = unused_.front();
  unused_.pop_front();
  Block& block = blocks_[static_cast<size_t>(index)];
  if (block.name != names_.end()) names_.erase(block.name);
  else --blank_;
  block.name = names_.end();
  block.references = 1;
  return index;
}

void BlockPool::release(int64_t index) {
  Block& block = blocks_.at(static_cast<size_t>(index));
  if (--block.references > 0) return;
  const bool is_blank = block.name == names_.end();
  block.place = unused_.insert(is_blank ? unused_.begin() : unused_.end(), index);
  blank_ += is_blank;
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
  blank_ = available();
}

}  // namespace transom
