// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace transom {

// What modules.json of sentence-transformers says of a model's vectors, as llama.cpp counts it in ARCH.pooling_type: 0
// none, 1 the mean, 2 the first token, 3 the last one. Nothing where there is no modules.json. Modules and poolings
// that a GGUF file has no place for are refused: llama.cpp would give other vectors without a word.
std::optional<int64_t> gguf_pooling_type(const std::filesystem::path& directory);

}  // namespace transom
