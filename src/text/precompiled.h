// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "text/components.h"

namespace transom::text {

// SentencePiece's normalisation table, in base64: the length of a double-array trie (Darts-clone), the trie, and the
// texts that its values point to. An error if the table is cut short.
std::unique_ptr<Normalizer> make_precompiled_normalizer(const std::string& base64, const std::string& where);

}  // namespace transom::text
