// SPDX-License-Identifier: Apache-2.0
// manifest.json of a sharded checkpoint: what was saved by how many processes, and the size and check sum of each file.
// It is written last, when all processes have written theirs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace transom {

inline constexpr std::string_view kManifest = "manifest.json";

struct Manifest {
  struct File {
    int64_t bytes = 0;
    uint32_t crc32 = 0;  // as zlib computes it
  };
  int64_t step = 0, ranks = 0;
  std::string mesh;                   // "dp 2 x tp 2", of the processes that saved
  std::map<std::string, File> files;  // by name

  std::string to_json() const;
  // Refuses names that lead out of the directory.
  static Manifest from_json(std::string_view text, std::string_view where);
  static Manifest read(const std::filesystem::path& directory);
};

// The size and the check sum of a file as it lies on disk.
Manifest::File describe_file(const std::filesystem::path& path);

// Throws unless each file is there in its size; of those whose number divided by `parts` leaves `part` the check sum is
// compared as well.
void check_files(const std::filesystem::path& directory, const Manifest& manifest, int64_t part, int64_t parts);
// The same for sizes alone, without an error; true where there is no manifest.
bool has_all_files(const std::filesystem::path& directory);

}  // namespace transom
