// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/voices.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/checkpoint/zip_archive.h"

namespace transom {
namespace {

constexpr const char* kEnding = ".npy";

std::vector<float> floats_of(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() % sizeof(float) != 0) fail("{}: expected numbers of 4 bytes, found {} bytes", where, bytes.size());
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

std::vector<float> npy_numbers(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 10 || !text.starts_with("\x93NUMPY") || text[6] != 1)
    fail("{}: expected an array in NumPy's format 1", where);
  const size_t length = static_cast<unsigned char>(text[8]) | static_cast<size_t>(static_cast<unsigned char>(text[9]))
                                                                  << 8;
  if (10 + length > text.size()) fail("{}: the header of the array goes beyond its end", where);
  const std::string_view header = text.substr(10, length);
  if (header.find("'<f4'") == header.npos || header.find("'fortran_order': False") == header.npos)
    fail("{}: expected numbers f32 row by row, found {}", where, quoted(header));
  return floats_of(bytes.subspan(10 + length), where);
}

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
    values = floats_of(file->bytes(), path.string());
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
