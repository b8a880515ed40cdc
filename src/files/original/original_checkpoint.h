// SPDX-License-Identifier: Apache-2.0
// The weights of a part of a pipeline in a file of the original layout (files/family/original.h), which lies in the
// folder of the part or beside model_index.json: .safetensors, .ckpt or .gguf, under any name.
#pragma once

#include <optional>

#include "base/files/files.h"
#include "files/checkpoint/checkpoint.h"

namespace transom {

// Under the names of diffusers and Transformers; nothing where no file holds the part. Two that hold it are an error
// that names them. Numbers of 8 bits (fp8) become float16, which holds them all.
std::optional<Checkpoint> open_original_checkpoint(const fs::path& folder);
bool holds_original_checkpoint(const fs::path& folder);

// The directory of a pipeline whose weights the file is to give: that of the file, where model_index.json stands beside
// it. An error where the parts there have weights of their own, which would be read instead.
std::optional<fs::path> pipeline_of_file(const fs::path& file);
// Whether the folder is one of a pipeline or of a part of one, whose files of GGUF are no models by themselves.
bool is_of_pipeline(const fs::path& folder);

}  // namespace transom
