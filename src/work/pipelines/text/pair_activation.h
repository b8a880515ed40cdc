// SPDX-License-Identifier: Apache-2.0
// What turns the logit of a cross-encoder, which reads two texts at once, into their score.
#pragma once

#include <filesystem>
#include <string>

namespace transom {

// As sentence-transformers wrote it down in config_sentence_transformers.json, in config.json, or there by the name of
// versions before 4: the last part of a class's name in torch.nn, "Identity" or "Sigmoid"; empty: nothing is said, and
// the sigmoid is meant.
std::string pair_activation_of(const std::filesystem::path& folder);

}  // namespace transom
