// SPDX-License-Identifier: Apache-2.0
// Bytes of a file with checked places: what an offset of a hostile file points to is inside, or an error.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace transom {

class ByteRange {
 public:
  // `where` begins errors and outlives this.
  ByteRange(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(&where) {}

  uint64_t size() const { return bytes_.size(); }
  const std::string& where() const { return *where_; }

  // `length` bytes at `offset`; `what` is named where the file ends before.
  std::span<const std::byte> at(uint64_t offset, uint64_t length, const char* what) const {
    if (offset > bytes_.size() || length > bytes_.size() - offset)
      fail("{}: is cut off or damaged: {} takes {} bytes at {}, the file has {}", *where_, what, length, offset,
           bytes_.size());
    return bytes_.subspan(offset, length);
  }
  // The little-endian number at `offset`.
  template <typename T>
  T number(uint64_t offset, const char* what) const {
    static_assert(std::endian::native == std::endian::little);
    T value;
    std::memcpy(&value, at(offset, sizeof value, what).data(), sizeof value);
    return value;
  }
  bool holds(uint64_t offset, std::string_view text) const {
    return offset <= bytes_.size() && text.size() <= bytes_.size() - offset &&
           std::memcmp(bytes_.data() + offset, text.data(), text.size()) == 0;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string* where_;
};

// The bytes that a tensor of this shape takes. Errors begin with `where`: negative extents, or more than `limit` bytes.
inline uint64_t checked_bytes(const std::vector<int64_t>& shape, uint64_t element, uint64_t limit,
                              const std::string& where) {
  uint64_t size = element;
  bool fits = true;
  for (const int64_t extent : shape)
    fits &= extent >= 0 && !__builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size);
  if (!fits || size > limit)
    fail("{}: shape [{}] of {} bytes an element does not fit the {} bytes that there are", where,
         fmt::join(shape, ", "), element, limit);
  return size;
}

}  // namespace transom
