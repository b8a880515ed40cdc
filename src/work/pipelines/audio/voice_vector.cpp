// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/voice_vector.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/checkpoint/safetensors.h"
#include "transom/ops.h"
#include "work/pipelines/audio/voices.h"

namespace transom {
namespace {

constexpr size_t kMostNumbersOfAVoice = 1 << 16;

bool is_voice_file(const fs::path& path) {
  return path.extension() == ".npy" || path.extension() == ".safetensors" || path.extension() == ".bin";
}

// The numbers f32 of a file that holds nothing else.
std::vector<float> plain_numbers(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() % sizeof(float) != 0 || bytes.size() > kMostNumbersOfAVoice * sizeof(float))
    fail("{}: expected at most {} numbers of 4 bytes, found {} bytes", path.string(), kMostNumbersOfAVoice,
         bytes.size());
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

std::vector<float> voice_vector(const fs::path& path) {
  std::vector<float> values;
  if (path.extension() == ".npy") {
    values = npy_numbers(MappedFile::open(path)->bytes(), path.string());
  } else if (path.extension() == ".safetensors") {
    const SafetensorsFile file = SafetensorsFile::open(path);
    if (file.tensors().size() != 1)
      fail("{}: expected one tensor, the vector of a voice, found {}", path.string(), file.tensors().size());
    const TensorView& view = file.tensors()[0].second;
    if (view.bytes.size() > kMostNumbersOfAVoice * sizeof(double))
      fail("{}: expected a vector of at most {} numbers, found {} bytes", path.string(), kMostNumbersOfAVoice,
           view.bytes.size());
    values = cast(Tensor::from_bytes(view.bytes, {view.dtype, view.shape}), DType::kFloat32).to_vector<float>();
  } else if (path.extension() == ".bin") {
    values = plain_numbers(path);
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
