// SPDX-License-Identifier: Apache-2.0
// Models of CTranslate2 as checkpoints: model.bin stands for the directory that Transformers would have, made of its
// variables and the files beside it. Who knows a specification registers it.
#pragma once

#include <filesystem>

#include "base/files/container_files.h"
#include "files/ctranslate2/ct2_file.h"

namespace transom {

struct Ct2Spec {
  const char* name;  // "WhisperSpec"
  // config.json and what else is read of a directory; `folder` is the file's.
  ContainerParts (*parts)(const Ct2File& file, const std::filesystem::path& folder);
  NamedViews (*weights)(const Ct2File& file);  // under the names of Transformers
};

// At start-up.
struct RegisterCt2Spec {
  explicit RegisterCt2Spec(const Ct2Spec& spec);
};

// Whether it is such a file, of a specification that is known or not.
bool is_ct2_file(const std::filesystem::path& path);
// model.bin of a directory, where it is one.
std::optional<std::filesystem::path> ct2_file_in(const std::filesystem::path& directory);
NamedViews ct2_weights(const std::filesystem::path& path);

}  // namespace transom
