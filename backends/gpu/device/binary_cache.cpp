// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/binary_cache.h"

#include <fmt/format.h>

#include <cstring>

namespace transom::gpu {
namespace {

constexpr std::string_view kMagic = "transom gpu kernel 1\n";

uint64_t hash(std::string_view bytes, uint64_t seed) {  // FNV-1a, with the bits mixed at the end
  uint64_t h = 0xCBF29CE484222325u ^ (seed * 0x9E3779B97F4A7C15u);
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  h ^= h >> 32;
  return h * 0xD6E8FEB86659FD93u;
}

void put(std::string& file, std::string_view part) {
  const uint64_t size = part.size();
  file.append(reinterpret_cast<const char*>(&size), sizeof size);
  file.append(part);
}
std::optional<std::string_view> take(std::string_view& rest) {
  uint64_t size = 0;
  if (rest.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, rest.data(), sizeof size);
  rest.remove_prefix(sizeof size);
  if (size > rest.size()) return std::nullopt;
  const std::string_view part = rest.substr(0, size);
  rest.remove_prefix(size);
  return part;
}

std::string name_of(std::string_view target, std::string_view text) {
  return fmt::format("{:016x}{:016x}", hash(target, 1) ^ hash(text, 2), hash(text, hash(target, 3)));
}

}  // namespace

BinaryCache BinaryCache::from_environment() {
  const std::filesystem::path all = backend::KernelFiles::folder_from_environment();
  return BinaryCache(all.empty() ? all : all / "gpu");
}

std::filesystem::path BinaryCache::path_of(std::string_view target, std::string_view text) const {
  return files_.path_of(name_of(target, text));
}

std::optional<std::string> BinaryCache::read(std::string_view target, std::string_view text) const {
  const std::string name = name_of(target, text);
  const std::optional<std::string> file = files_.read(name);
  if (!file) return std::nullopt;
  std::string_view rest = *file;
  if (rest.starts_with(kMagic)) {
    rest.remove_prefix(kMagic.size());
    const auto made_for = take(rest), made_from = take(rest), code = take(rest), sum = take(rest);
    if (sum && rest.empty() && *made_for == target && *made_from == text && *sum == fmt::format("{:x}", hash(*code, 4)))
      return std::string(*code);
  }
  files_.remove(name);
  return std::nullopt;
}

void BinaryCache::write(std::string_view target, std::string_view text, std::string_view code) const {
  if (files_.folder().empty() || code.size() + text.size() > kLargest / 2) return;
  std::string file(kMagic);
  put(file, target), put(file, text), put(file, code), put(file, fmt::format("{:x}", hash(code, 4)));
  files_.write(name_of(target, text), file, kLimit);
}

}  // namespace transom::gpu
