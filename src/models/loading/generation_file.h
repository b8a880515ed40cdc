// SPDX-License-Identifier: Apache-2.0
// generation_config.json as Transformers reads and writes it beside a model.
#pragma once

#include <filesystem>

#include "files/config/config.h"

namespace transom {

// What a directory says about generation: the fields of its generation_config.json, or, where it has none that can be
// read, those that older versions of Transformers kept in config.json. An empty directory has none.
Config read_generation_config(const std::filesystem::path& directory, const Config& config);

}  // namespace transom
