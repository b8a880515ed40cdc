// SPDX-License-Identifier: Apache-2.0
// A smaller model whose drafts another one verifies: Transformers' assistant_model.
#pragma once

#include <memory>
#include <string>

#include "transom/model.h"
#include "transom/tokenizer.h"

namespace transom {

// Loads it. Throws Error where its tokens are not those of `tokenizer`, that of the model which verifies: drafts of
// other tokens mean nothing. `directory` is a directory or a file.
std::unique_ptr<Model> load_assistant(const std::string& directory, const LoadOptions& options,
                                      const Tokenizer& tokenizer);

}  // namespace transom
