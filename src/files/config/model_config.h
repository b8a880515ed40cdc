// SPDX-License-Identifier: Apache-2.0
// The configuration of a model directory, in Transformers' form or in that of Google's checkpoints.
#pragma once

#include "base/files/files.h"
#include "files/config/config.h"

namespace transom {

// config.json; where there is none, bert_config.json or albert_config.json, with model_type, and with the architecture
// that the variables of the TensorFlow checkpoint beside it show.
Config read_model_config(const fs::path& directory);
// With the class that diffusers names in its own way as the architecture, where there is none.
Config with_architecture(Config config);
// Whether there is one of them.
bool has_model_config(const fs::path& directory);
// The configuration of what writes: of a model of several parts its text_config, else all of it.
Config text_config_of(const Config& config);

}  // namespace transom
