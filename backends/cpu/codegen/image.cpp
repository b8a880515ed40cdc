// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/image.h"

#include <cstring>

namespace transom::cpu::codegen {
namespace {

constexpr char kMagic[8] = {'T', 'R', 'K', 'E', 'R', 'N', '0', '1'};

struct Header {
  char magic[8];
  uint64_t checksum;  // of everything behind it
  uint32_t target_bytes, key_bytes, code_bytes, entry;
};

uint64_t checksum(std::string_view file) { return hash_bytes(file.substr(16), 0x7261736d); }

}  // namespace

// FNV-1a over words, with the bits spread at the end.
uint64_t hash_bytes(std::string_view bytes, uint64_t seed) {
  constexpr uint64_t kPrime = 0x100000001B3;
  uint64_t hash = 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15) ^ bytes.size();
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29;
    bytes.remove_prefix(8);
  }
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * kPrime;
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCD;
  return hash ^ (hash >> 33);
}

std::string encode_image(std::string_view target, std::string_view key, const Code& code) {
  Header header{{},
                0,
                static_cast<uint32_t>(target.size()),
                static_cast<uint32_t>(key.size()),
                static_cast<uint32_t>(code.bytes.size()),
                static_cast<uint32_t>(code.entry)};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file += target;
  file += key;
  file += code.bytes;
  const uint64_t sum = checksum(file);
  std::memcpy(file.data() + 8, &sum, sizeof sum);
  return file;
}

std::optional<Code> decode_image(std::string_view file, std::string_view target, std::string_view key) {
  Header header;
  if (file.size() < sizeof header || file.size() > kLargestImage) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof header);
  const uint64_t bytes = uint64_t{sizeof header} + header.target_bytes + header.key_bytes + header.code_bytes;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || bytes != file.size() ||
      header.checksum != checksum(file) || header.entry >= header.code_bytes)
    return std::nullopt;
  file.remove_prefix(sizeof header);
  if (file.substr(0, header.target_bytes) != target) return std::nullopt;
  file.remove_prefix(header.target_bytes);
  if (file.substr(0, header.key_bytes) != key) return std::nullopt;
  file.remove_prefix(header.key_bytes);
  return Code{std::string(file), header.entry};
}

}  // namespace transom::cpu::codegen
