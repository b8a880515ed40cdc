// SPDX-License-Identifier: Apache-2.0
// A GGUF file as a model of Transformers: its metadata as config.json and tokenizer files, its tensors under the names
// of the checkpoints. The keys are those of gguf-py/gguf/constants.py of https://github.com/ggml-org/llama.cpp
#pragma once

#include "base/files/container_files.h"
#include "base/json/json_fwd.h"
#include "files/checkpoint/checkpoint.h"
#include "files/gguf/gguf_file.h"

namespace transom {

// config.json. An architecture that is not known is an error that names those that are.
Json gguf_config(const GgufFile& file);
// Adds tokenizer.json or tokenizer.model, tokenizer_config.json, and what else a tokenizer's directory has.
void add_gguf_tokenizer(const GgufFile& file, ContainerParts& parts);
// The tensors. Rows that the file holds in another order are put back; whole rows move, so that nothing is rounded.
Checkpoint gguf_checkpoint(const GgufFile& file);

}  // namespace transom
