// SPDX-License-Identifier: Apache-2.0
// What torch before 1.6 wrote, and torch.save writes with _use_new_zipfile_serialization=False: pickles one behind the
// other (a magic number, a version, the machine's sizes, the value, the keys of its storages), then the storages.
#pragma once

#include <map>
#include <span>
#include <string>

#include "files/checkpoint/pickle.h"

namespace transom {

struct LegacyTorchFile {
  Pickle pickle;
  std::map<std::string, std::span<const std::byte>> storages;  // by key, within the file
};

// Whether the bytes begin as such a file does.
bool is_legacy_torch_file(std::span<const std::byte> bytes);
LegacyTorchFile read_legacy_torch_file(std::span<const std::byte> bytes, const std::string& where);

}  // namespace transom
