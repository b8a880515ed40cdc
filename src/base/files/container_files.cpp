// SPDX-License-Identifier: Apache-2.0
#include "base/files/container_files.h"

#include <fstream>
#include <memory>
#include <mutex>
#include <vector>

namespace transom {
namespace {

namespace fs = std::filesystem;

struct Format {
  std::string extension, magic;
  ReadContainer read;
};

std::vector<Format>& formats() {
  static std::vector<Format> all;
  return all;
}

// The reader of a file; null where it is of no format.
ReadContainer reader_of(const fs::path& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return nullptr;
  for (const Format& format : formats())
    if (path.extension() == format.extension) return format.read;
  constexpr size_t kLongest = 16;
  char begin[kLongest] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(begin, kLongest);
  const std::string_view found(begin, static_cast<size_t>(file.gcount()));
  for (const Format& format : formats())
    if (found.starts_with(format.magic)) return format.read;
  return nullptr;
}

// The parts of the container that was asked for last, as long as the file is the same.
struct Kept {
  fs::path path;
  fs::file_time_type time;
  uintmax_t size = 0;
  std::shared_ptr<const ContainerParts> parts;
};

std::shared_ptr<const ContainerParts> parts_of(const fs::path& path, ReadContainer read) {
  static std::mutex mutex;
  static Kept kept;
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  const uintmax_t size = fs::file_size(path, error);
  {
    const std::lock_guard lock(mutex);
    if (kept.parts && kept.path == path && kept.time == time && kept.size == size) return kept.parts;
  }
  auto made = std::make_shared<const ContainerParts>(read(path));
  const std::lock_guard lock(mutex);
  kept = {path, time, size, made};
  return made;
}

}  // namespace

RegisterContainer::RegisterContainer(const char* extension, std::string_view magic, ReadContainer read) {
  formats().push_back({extension, std::string(magic), read});
}

bool is_container(const fs::path& path) { return reader_of(path) != nullptr; }

std::optional<std::string> container_part(const fs::path& path) {
  // A part may lie in a folder: model.gguf/1_Pooling/config.json.
  constexpr int kDeepest = 2;
  fs::path parent = path.parent_path(), name = path.filename();
  for (int depth = 0; depth < kDeepest && !parent.empty(); ++depth) {
    if (const ReadContainer read = reader_of(parent)) {
      const auto parts = parts_of(parent, read);
      const auto found = parts->find(name.generic_string());
      return found == parts->end() ? std::nullopt : std::optional(found->second);
    }
    name = parent.filename() / name, parent = parent.parent_path();
  }
  return std::nullopt;
}

}  // namespace transom
