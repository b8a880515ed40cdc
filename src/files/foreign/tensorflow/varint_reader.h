// SPDX-License-Identifier: Apache-2.0
// Numbers of seven bits a byte, and bytes behind them, as LevelDB writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace transom {

class VarintReader {
 public:
  // `where` begins errors and outlives this.
  VarintReader(std::span<const std::byte> bytes, const std::string& where) : left_(bytes), where_(&where) {}

  bool at_end() const { return left_.empty(); }
  uint64_t next() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint64_t>(take(1)[0]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail("{}: is damaged: a number has more than ten bytes", *where_);
  }
  std::span<const std::byte> take(uint64_t count) {
    if (count > left_.size()) fail("{}: is damaged: {} bytes are to come, {} are there", *where_, count, left_.size());
    const std::span<const std::byte> taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

 private:
  std::span<const std::byte> left_;
  const std::string* where_;
};

}  // namespace transom
