// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/files/files.h"

namespace transom {

// Copies what stands beside the weights of a model and belongs to it: tokenizer, chat template, processors, modules of
// sentence-transformers. Files that `output` has already are kept.
void copy_companion_files(const fs::path& model, const fs::path& output);

}  // namespace transom
