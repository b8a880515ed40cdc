// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "files/hub/settings.h"

namespace transom {

// What resolve_model and resolve_tokenizer do with an id, for given settings.
fs::path resolve_from_hub(const std::string& id, const HubSettings& settings, bool with_weights);

// Whether the file is an ONNX model: by its ending, or by how it begins.
bool is_onnx_file(const std::filesystem::path& path);

// Where the configuration and the tokenizer of a local model lie: the directory itself, that of a file that is a model,
// or the one above it where that alone has a config.json. Of adapters: where those of their base lie, a directory or a
// file that stands for one. One answer for all who read a file that describes a model.
std::filesystem::path directory_of_model(const std::filesystem::path& path);

}  // namespace transom
