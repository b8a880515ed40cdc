// SPDX-License-Identifier: Apache-2.0
// The panels of a packed matrix (ops/products/packed_matrix.h), 16 rows each, from the rows of a checkpoint. They may
// be packed when they are wanted. The first product then reads them from the checkpoint: each panel is packed for it
// into a cache, and the next product packs it to where it stays. A first token thus waits for no fresh memory, which
// takes the system longer to give than the packing; and since a panel has the same bytes in both places, products have
// the same bits. A table of tokens of which rows are looked up alone is never packed: each panel that is asked for is
// packed for the one who asks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "files/blocks/block_matrix.h"
#include "runtime/device/deferred_memory.h"

namespace transom {

class PackedPanels : public DeferredMemory {
 public:
  // `group`: 16, or a multiple of 32.
  PackedPanels(std::shared_ptr<const BlockMatrix> matrix, int64_t group);

  void finish() override;
  const transom_deferred& source() const override { return source_; }
  const transom_deferred_parts& parts(Part part) const override { return parts_[part].interface; }

  int64_t panels() const { return panels_; }
  int64_t groups() const { return groups_; }
  int64_t blocks() const { return blocks_; }  // of 32 inputs
  // Written where finish() was called.
  std::span<const std::byte> codes() const { return {codes_.get(), code_bytes_ * static_cast<size_t>(panels_)}; }
  std::span<const std::byte> scales() const { return {scales_.get(), scale_bytes_ * static_cast<size_t>(panels_)}; }
  std::span<const std::byte> minima() const { return {minima_.get(), scale_bytes_ * static_cast<size_t>(panels_)}; }

 private:
  enum State : uint8_t { kUnread, kRead, kInWork, kWritten };

  // As transom_deferred::read.
  int32_t read(size_t panel, std::byte* codes, std::byte* scales, std::byte* minima);
  // As transom_deferred_parts::copy.
  int32_t copy(Part part, size_t panel, std::byte* to) const;
  void write(size_t panel);  // whose state the caller has set to kInWork
  // Each unless null.
  void pack(const BlockMatrix& matrix, size_t panel, std::byte* codes, std::byte* scales, std::byte* minima) const;
  std::shared_ptr<const BlockMatrix> matrix() const;  // null once all is written

  BlockLayout layout_;
  int64_t panels_, groups_, blocks_;
  size_t code_bytes_, scale_bytes_;  // of a panel
  std::shared_ptr<std::byte> codes_, scales_, minima_;
  std::vector<std::atomic<uint8_t>> states_;
  std::atomic<size_t> left_;
  mutable std::mutex mutex_;  // of matrix_
  std::shared_ptr<const BlockMatrix> matrix_;
  transom_deferred source_;
  struct PartOfPanels {
    const PackedPanels* panels;
    Part part;
    transom_deferred_parts interface;
  };
  PartOfPanels parts_[3];
};

}  // namespace transom
