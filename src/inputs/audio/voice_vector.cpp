// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/voice_vector.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/blocks/quantized_parts.h"
#include "files/checkpoint/safetensors.h"

namespace transom {
namespace {

constexpr size_t kMostNumbersOfAVoice = 1 << 16, kMostBytesOfAVoice = 1 << 20;

bool is_voice_file(const fs::path& path) {
  return path.extension() == ".npy" || path.extension() == ".safetensors" || path.extension() == ".bin";
}

}  // namespace

std::vector<float> plain_numbers(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() % sizeof(float) != 0) fail("{}: expected numbers of 4 bytes, found {} bytes", where, bytes.size());
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

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
  return plain_numbers(bytes.subspan(10 + length), where);
}

std::vector<float> voice_vector(const fs::path& path) {
  std::vector<float> values;
  const auto small_file = [&] {
    auto file = MappedFile::open(path);
    if (file->bytes().size() > kMostBytesOfAVoice)
      fail("{}: expected the vector of a voice, found {} bytes", path.string(), file->bytes().size());
    return file;
  };
  if (path.extension() == ".npy") {
    values = npy_numbers(small_file()->bytes(), path.string());
  } else if (path.extension() == ".safetensors") {
    const SafetensorsFile file = SafetensorsFile::open(path);
    if (file.tensors().size() != 1)
      fail("{}: expected one tensor, the vector of a voice, found {}", path.string(), file.tensors().size());
    const TensorView& view = file.tensors()[0].second;
    if (view.bytes.size() > kMostNumbersOfAVoice * sizeof(double))
      fail("{}: expected a vector of at most {} numbers, found {} bytes", path.string(), kMostNumbersOfAVoice,
           view.bytes.size());
    values = floats_of(view, path.string());
  } else if (path.extension() == ".bin") {
    values = plain_numbers(small_file()->bytes(), path.string());
  } else {
    fail("{}: expected a vector of a voice as .npy, .safetensors or .bin", path.string());
  }
  for (const float value : values)
    if (!std::isfinite(value)) fail("{}: expected finite numbers", path.string());
  if (values.empty() || values.size() > kMostNumbersOfAVoice)
    fail("{}: expected a vector of 1 to {} numbers, found {}", path.string(), kMostNumbersOfAVoice, values.size());
  return values;
}

fs::path voice_file(const fs::path& folder, const std::string& name) {
  std::vector<fs::path> paths;
  std::vector<std::string> names;
  if (directory_exists(folder / "voices"))
    for (const fs::path& path : list_directory(folder / "voices"))
      if (is_voice_file(path)) paths.push_back(path);
  std::sort(paths.begin(), paths.end());
  if (paths.empty())
    fail("{}: expected speaker_embeddings, a file of the vector of a voice, or such files in voices/ beside the model",
         folder.string());
  if (name.empty()) return paths.front();
  for (const fs::path& path : paths) {
    if (path.stem().string() == name) return path;
    names.push_back(path.stem().string());
  }
  fail("voice: expected one of {} voices ({}), found {}{}", names.size(), fmt::join(names, ", "), quoted(name),
       did_you_mean(name, names));
}

}  // namespace transom
