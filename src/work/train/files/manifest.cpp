// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/manifest.h"

#include <zlib.h>

#include <limits>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/json/json_errors.h"
#include "files/checkpoint/sharded_safetensors.h"

namespace transom {
namespace {

constexpr std::string_view kFormat = "transom_sharded_checkpoint";
constexpr uint64_t kMaximumBytes = uint64_t{1} << 28;

uint64_t read_count(const nlohmann::json& value, std::string_view name, uint64_t most, std::string_view where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
    fail("{}: {}: expected a whole number of at most {}, found {}", where, name, most, value.dump());
  return value.get<uint64_t>();
}

}  // namespace

std::string Manifest::to_json() const {
  Json names = Json::object();
  for (const auto& [name, file] : files) names.push_back({name, Json{{"bytes", file.bytes}, {"crc32", file.crc32}}});
  return dump_json(
             {{"format", kFormat}, {"version", 1}, {"step", step}, {"ranks", ranks}, {"mesh", mesh}, {"files", names}},
             2) +
         "\n";
}

Manifest Manifest::from_json(std::string_view text, std::string_view where) {
  Manifest manifest;
  try {
    const nlohmann::json all = parse_large_json(text, where);
    if (!all.is_object() || all.value("format", "") != kFormat || all.at("version") != 1)
      fail("{}: expected format {} of version 1", where, kFormat);
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const auto count = [&](const nlohmann::json& object, const char* name, uint64_t most) {
      return read_count(object.at(name), name, most, where);
    };
    manifest.step = static_cast<int64_t>(count(all, "step", kMost));
    manifest.ranks = static_cast<int64_t>(count(all, "ranks", kMost));
    manifest.mesh = all.at("mesh").get<std::string>();
    if (all.at("files").empty()) fail("{}: expected the names of the checkpoint's files, found none", where);
    for (const auto& [name, file] : all.at("files").items()) {
      if (name.empty() || name.find('/') != name.npos || name == "." || name == "..")
        fail("{}: expected names of files, found {}", where, quoted(name));
      manifest.files[name] = {static_cast<int64_t>(count(file, "bytes", kMost)),
                              static_cast<uint32_t>(count(file, "crc32", std::numeric_limits<uint32_t>::max()))};
    }
  } catch (const nlohmann::json::exception& error) {
    fail("{}: is no manifest of a checkpoint: {}", where, json_reason(error));
  }
  return manifest;
}

Manifest Manifest::read(const std::filesystem::path& directory) {
  const fs::path path = directory / kManifest;
  return from_json(read_file(path, kMaximumBytes), path.string());
}

Manifest::File describe_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  return {static_cast<int64_t>(bytes.size()),
          static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()))};
}

void check_files(const std::filesystem::path& directory, const Manifest& manifest, int64_t part, int64_t parts) {
  int64_t number = 0;
  for (const auto& [name, expected] : manifest.files) {
    const fs::path path = directory / name;
    std::error_code error;
    const uint64_t bytes = fs::file_size(path, error);
    if (error) fail("{}: {} names it, and it cannot be read: {}", path.string(), kManifest, error.message());
    if (static_cast<int64_t>(bytes) != expected.bytes)
      fail("{}: {} says {} bytes, found {}", path.string(), kManifest, expected.bytes, bytes);
    if (number++ % parts != part) continue;
    if (const Manifest::File found = describe_file(path); found.crc32 != expected.crc32)
      fail("{}: {} says the check sum {:08x}, found {:08x}: the file is damaged; resume from an older checkpoint",
           path.string(), kManifest, expected.crc32, found.crc32);
  }
}

bool has_all_files(const std::filesystem::path& directory) {
  try {
    // A manifest.json of another program may lie beside an ordinary checkpoint.
    if (!file_exists(directory / kManifest) || !ShardedTensorFiles::exists(directory)) return true;
    for (const auto& [name, file] : Manifest::read(directory).files) {
      std::error_code error;
      if (fs::file_size(directory / name, error) != static_cast<uint64_t>(file.bytes) || error) return false;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace transom
