// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/tensorflow/leveldb_table.h"

#include "base/numbers/crc32c.h"
#include "files/foreign/byte_range.h"
#include "files/foreign/tensorflow/varint_reader.h"

namespace transom {
namespace {

constexpr uint64_t kFooter = 48, kMagic = 0xdb4775248b80fb57, kTrailer = 5;
constexpr size_t kMaximumKeys = 1'000'000, kMaximumKey = 1 << 16;
constexpr uint64_t kMaximumText = uint64_t{1} << 28;  // of all keys

using Entries = std::vector<std::pair<std::string, std::span<const std::byte>>>;

class TableReader {
 public:
  TableReader(std::span<const std::byte> bytes, const std::string& where) : file_(bytes, where) {}

  Entries read() {
    if (file_.size() < kFooter || file_.number<uint64_t>(file_.size() - 8, "the footer") != kMagic)
      fail("{}: is no index of a TensorFlow checkpoint, or is cut off: it does not end with the table's mark",
           file_.where());
    VarintReader footer(file_.at(file_.size() - kFooter, kFooter - 8, "the footer"), file_.where());
    for (int skip = 0; skip < 2; ++skip) footer.next();  // of the meta index
    const uint64_t offset = footer.next(), size = footer.next();
    Entries result;
    for (const auto& [key, handle] : block(offset, size)) {
      VarintReader reader(handle, file_.where());
      const uint64_t at = reader.next(), length = reader.next();
      for (auto& entry : block(at, length)) result.push_back(std::move(entry));
    }
    return result;
  }

 private:
  Entries block(uint64_t offset, uint64_t size) {
    if (size > file_.size())
      fail("{}: is damaged: a block of {} bytes in a file of {}", file_.where(), size, file_.size());
    const std::span<const std::byte> all = file_.at(offset, size + kTrailer, "a block");
    const ByteRange trailer(all, file_.where());
    if (trailer.number<uint32_t>(size + 1, "a block") != masked_crc32c(all.first(size + 1)))
      fail("{}: is damaged: the CRC of the block at {} is wrong", file_.where(), offset);
    if (all[size] != std::byte{0})
      fail("{}: the block at {} is compressed (type {}); TensorFlow writes plain ones", file_.where(), offset,
           static_cast<int>(all[size]));
    if (size < 4) fail("{}: is damaged: the block at {} has {} bytes", file_.where(), offset, size);
    const uint64_t restarts = trailer.number<uint32_t>(size - 4, "a block");
    if (4 + 4 * restarts > size)
      fail("{}: is damaged: the block at {} has {} restarts", file_.where(), offset, restarts);

    Entries result;
    VarintReader reader(all.first(size - 4 - 4 * restarts), file_.where());
    std::string key;
    while (!reader.at_end()) {
      const uint64_t shared = reader.next(), unshared = reader.next(), length = reader.next();
      if (shared > key.size() || unshared > kMaximumKey || shared + unshared > kMaximumKey)
        fail("{}: is damaged: a key of the block at {} has {} + {} bytes", file_.where(), offset, shared, unshared);
      const std::span<const std::byte> tail = reader.take(unshared);
      key.resize(shared);
      key.append(reinterpret_cast<const char*>(tail.data()), tail.size());
      if (++keys_ > kMaximumKeys || (text_ += key.size()) > kMaximumText)
        fail("{}: holds more than {} keys, or {} bytes of them", file_.where(), kMaximumKeys, kMaximumText);
      result.emplace_back(key, reader.take(length));
    }
    return result;
  }

  ByteRange file_;
  size_t keys_ = 0;
  uint64_t text_ = 0;
};

}  // namespace

Entries parse_leveldb_table(std::span<const std::byte> bytes, const std::string& where) {
  return TableReader(bytes, where).read();
}

}  // namespace transom
