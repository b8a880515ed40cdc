// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/zip_archive.h"

#include <zlib.h>

#include <cstring>
#include <vector>

#include "base/error.h"

namespace transom {
namespace {

constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50, kCentral = 0x02014b50,
                   kLocal = 0x04034b50;
constexpr uint64_t kMaximumInflated = uint64_t{1} << 26;

// Little-endian numbers at checked places.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}
  template <typename T>
  T at(uint64_t place) const {
    T value;
    std::memcpy(&value, part(place, sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> part(uint64_t place, uint64_t size) const {
    if (place > bytes_.size() || size > bytes_.size() - place)
      fail("{}: is no whole zip archive: {} bytes at {} lie outside of its {}", where_, size, place, bytes_.size());
    return bytes_.subspan(place, size);
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
};

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {
  const Reader reader(bytes_, where_);
  // The end record stands before a comment of at most 64 KiB.
  uint64_t end = bytes_.size();
  bool found = false;
  for (uint64_t back = 22; back <= std::min<uint64_t>(bytes_.size(), 22 + 65535) && !found; ++back) {
    end = bytes_.size() - back;
    found = reader.at<uint32_t>(end) == kEnd;
  }
  if (!found) fail("{}: is no zip archive, and no checkpoint of torch before version 1.6", where_);
  uint64_t count = reader.at<uint16_t>(end + 10), place = reader.at<uint32_t>(end + 16);
  if (end >= 20 && reader.at<uint32_t>(end - 20) == kLocator64) {
    const auto record = reader.at<uint64_t>(end - 12);
    if (reader.at<uint32_t>(record) != kEnd64) fail("{}: the zip64 record is not where it should be", where_);
    count = reader.at<uint64_t>(record + 32);
    place = reader.at<uint64_t>(record + 48);
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (reader.at<uint32_t>(place) != kCentral) fail("{}: entry {} of the archive's directory is damaged", where_, i);
    Place entry{reader.at<uint16_t>(place + 10), reader.at<uint32_t>(place + 20), reader.at<uint32_t>(place + 24),
                reader.at<uint32_t>(place + 42)};
    const uint64_t name_size = reader.at<uint16_t>(place + 28), extra_size = reader.at<uint16_t>(place + 30),
                   comment_size = reader.at<uint16_t>(place + 32);
    const auto name = reader.part(place + 46, name_size);
    // The zip64 extra field holds, in this order, what did not fit into 32 bits.
    for (uint64_t at = place + 46 + name_size, stop = at + extra_size; at + 4 <= stop;) {
      const uint64_t id = reader.at<uint16_t>(at), size = reader.at<uint16_t>(at + 2);
      uint64_t field = at + 4;
      if (id == 1)
        for (uint64_t* value : {&entry.size, &entry.packed, &entry.header})
          if (*value == 0xFFFFFFFF) {
            *value = reader.at<uint64_t>(field);
            field += 8;
          }
      at += 4 + size;
    }
    entries_[std::string(reinterpret_cast<const char*>(name.data()), name.size())] = entry;
    place += 46 + name_size + extra_size + comment_size;
  }
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::string ZipArchive::find_ending(std::string_view ending) const {
  for (const auto& [name, entry] : entries_)
    if (name.ends_with(ending)) return name;
  return "";
}

ZipArchive::Entry ZipArchive::read(const std::string& name, uint64_t* budget) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail("{}: the archive has no entry {}", where_, quoted(name));
  const Place& entry = found->second;
  const Reader reader(bytes_, where_);
  if (reader.at<uint32_t>(entry.header) != kLocal) fail("{}: the header of entry {} is damaged", where_, quoted(name));
  const uint64_t data =
      entry.header + 30 + reader.at<uint16_t>(entry.header + 26) + reader.at<uint16_t>(entry.header + 28);
  const auto packed = reader.part(data, entry.packed);
  if (entry.method == 0) {
    if (entry.size != entry.packed) fail("{}: entry {} is stored, but its two sizes differ", where_, quoted(name));
    return {packed, nullptr};
  }
  if (entry.method != 8)
    fail("{}: entry {} is packed by method {}; stored and deflated are read", where_, quoted(name), entry.method);
  // Deflate packs at most about 1000 to 1: a larger claim is a lie.
  if (entry.size > (budget ? *budget : kMaximumInflated) || entry.size / 1100 > entry.packed)
    fail("{}: entry {} claims to inflate from {} bytes to {}, which is not credible", where_, quoted(name),
         entry.packed, entry.size);
  if (budget) *budget -= entry.size;
  const auto inflated = std::make_shared<std::vector<std::byte>>(entry.size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(ErrorKind::kInternal, "zlib cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.next_out = reinterpret_cast<Bytef*>(inflated->data());
  uint64_t in_left = packed.size(), out_left = inflated->size();
  int status = Z_OK;
  while (status == Z_OK) {
    const auto in = static_cast<uInt>(std::min<uint64_t>(in_left, 1u << 30)),
               out = static_cast<uInt>(std::min<uint64_t>(out_left, 1u << 30));
    stream.avail_in = in;
    stream.avail_out = out;
    status = inflate(&stream, Z_NO_FLUSH);
    in_left -= in - stream.avail_in;
    out_left -= out - stream.avail_out;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || out_left != 0)
    fail("{}: entry {} cannot be inflated to its {} bytes", where_, quoted(name), entry.size);
  return {*inflated, inflated};
}

}  // namespace transom
