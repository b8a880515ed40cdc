// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/cache.h"

#include <fmt/format.h>

namespace transom::cpu::codegen {
namespace {

std::string name_of(std::string_view target, std::string_view key) {
  return fmt::format("{:016x}{:016x}", hash_bytes(key, hash_bytes(target, 1)), hash_bytes(key, hash_bytes(target, 2)));
}

}  // namespace

std::filesystem::path DiskCache::path_of(std::string_view target, std::string_view key) const {
  return files_.path_of(name_of(target, key));
}

std::optional<Code> DiskCache::read(std::string_view target, std::string_view key) const {
  const std::string name = name_of(target, key);
  const std::optional<std::string> file = files_.read(name);
  if (!file) return std::nullopt;
  std::optional<Code> code = decode_image(*file, target, key);
  if (!code) files_.remove(name);
  return code;
}

void DiskCache::write(std::string_view target, std::string_view key, const Code& code) const {
  if (!folder().empty()) files_.write(name_of(target, key), encode_image(target, key, code), kLimit);
}

}  // namespace transom::cpu::codegen
