// SPDX-License-Identifier: Apache-2.0
// Models that are no checkpoint of a known architecture: what Model::from_pretrained opens besides.
#pragma once

#include <memory>
#include <string>

#include "base/files/files.h"
#include "files/config/config.h"
#include "transom/model.h"

namespace transom {

// One format, known from the start of the program on; its file ends with a RegisterModelFormat.
struct ModelFormat {
  bool (*recognises)(const fs::path& path);  // a file or a directory
  std::unique_ptr<Model> (*load)(const fs::path& path, const LoadOptions& options);
};
struct RegisterModelFormat {
  explicit RegisterModelFormat(const ModelFormat& format);
};

// The model of the first format that recognises the path; null where none does.
std::unique_ptr<Model> load_other_format(const fs::path& path, const LoadOptions& options);

// Gives a model that a format made what every model has; one that writes text gets the generation_config.json of
// `folder`. It computes in the types that its file names.
void complete_model(Model& model, Config config, const std::string& architecture, const fs::path& folder);

}  // namespace transom
