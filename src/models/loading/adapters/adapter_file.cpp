// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adapter_file.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "files/checkpoint/safetensors.h"
#include "files/hub/adapters.h"

namespace transom {
namespace {

constexpr std::string_view kMagnitudeInMemory = ".lora_magnitude_vector.weight", kOfLayer = ".base_layer.";

}  // namespace

bool holds_adapters(const fs::path& directory) { return path_exists(directory / kAdapterConfig); }

std::string name_in_model(std::string_view key, const AdapterKind& kind) {
  std::string name(key.starts_with(kind.prefix) ? key.substr(kind.prefix.size()) : key);
  // What belongs to no layer stands behind the first part of the prefix alone.
  constexpr std::string_view kModelAlone = "base_model.";
  if (name.starts_with(kModelAlone)) name = name.substr(kModelAlone.size());
  if (const size_t place = name.find(kOfLayer); place != name.npos) name.erase(place, kOfLayer.size() - 1);
  if (name.ends_with(kMagnitudeInMemory)) name.resize(name.size() - std::string_view(".weight").size());
  return name;
}

AdapterFile::AdapterFile(const fs::path& directory, const AdapterKind& kind, bool training) {
  const fs::path file = directory / (training ? kAdapterTrainingFile : kAdapterFile);
  where_ = file.string();
  if (!path_exists(file)) {
    if (training) return;
    fail("{}: expected {}, found none", directory.string(), kAdapterFile);
  }
  for (const auto& [name, view] : SafetensorsFile::open(file).tensors()) {
    // With bias "all" PEFT saves those of the modules to save once more, under the names of its own wrappers.
    if (name.find(".modules_to_save.") != name.npos || name.find(".original_module.") != name.npos) continue;
    views_.emplace_back(name_in_model(name, kind), view);
  }
}

const TensorView* AdapterFile::find(std::string_view name) const {
  for (const auto& [key, view] : views_)
    if (key == name) return &view;
  return nullptr;
}

}  // namespace transom
