// SPDX-License-Identifier: Apache-2.0
// How far transcripts are from what was said.
#pragma once

#include <span>
#include <string>

namespace transom {

// Substitutions, insertions and deletions of the cheapest way from all references to the predictions, divided by the
// words (characters) of the references, as jiwer computes them. Infinite where the references have none.
double word_error_rate(std::span<const std::string> references, std::span<const std::string> predictions);
double character_error_rate(std::span<const std::string> references, std::span<const std::string> predictions);

}  // namespace transom
