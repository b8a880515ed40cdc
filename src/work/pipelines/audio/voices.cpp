// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/voices.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/checkpoint/zip_archive.h"
#include "inputs/audio/voice_vector.h"

namespace transom {
namespace {

constexpr const char* kEnding = ".npy";

}  // namespace

Voices::Voices(const fs::path& folder) : folder_(folder / "voices") {
  if (directory_exists(folder_)) {
    for (const fs::path& path : list_directory(folder_))
      if (path.extension() == ".bin") names_.push_back(path.stem().string());
  } else {
    for (const fs::path& path : list_directory(folder)) {
      const std::string name = path.filename().string();
      if (!name.starts_with("voices") || (path.extension() != ".npz" && path.extension() != ".bin")) continue;
      if (!archive_.empty())
        fail("{}: expected one file of voices, found {} and {}", folder.string(), archive_.filename().string(), name);
      archive_ = path;
    }
    if (!archive_.empty()) {
      const auto file = MappedFile::open(archive_);
      for (const std::string& name : ZipArchive(file->bytes(), archive_.string()).names())
        if (name.ends_with(kEnding)) names_.push_back(name.substr(0, name.size() - 4));
    }
  }
  std::sort(names_.begin(), names_.end());
  if (names_.empty())
    fail("{}: expected voices/NAME.bin, or voices*.npz, beside the model: there are no voices", folder.string());
}

std::vector<float> Voices::table(const std::string& name, int64_t width) const {
  if (!std::binary_search(names_.begin(), names_.end(), name))
    fail("voice: expected one of {} voices ({}), found {}{}", names_.size(), fmt::join(names_, ", "), quoted(name),
         did_you_mean(name, names_));
  const fs::path path = archive_.empty() ? folder_ / (name + ".bin") : archive_;
  const auto file = MappedFile::open(path);
  std::vector<float> values;
  if (archive_.empty()) {
    values = plain_numbers(file->bytes(), path.string());
  } else {
    const ZipArchive archive(file->bytes(), path.string());
    const ZipArchive::Entry entry = archive.read(name + kEnding);
    values = npy_numbers(entry.bytes, fmt::format("{}: {}", path.string(), name));
  }
  if (values.empty() || values.size() % static_cast<size_t>(width) != 0)
    fail("{}: voice {}: expected rows of {} numbers, found {} numbers", path.string(), name, width, values.size());
  return values;
}

}  // namespace transom
