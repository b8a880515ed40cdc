// SPDX-License-Identifier: Apache-2.0
// Which samples lie together in a row of packed training data, as TRL's pack_dataset puts them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "transom/batch.h"

namespace transom {

enum class PackingStrategy {
  kBestFit,         // bfd: whole samples, the longest first, each where it leaves the least room; longer ones are cut
  kBestFitOfParts,  // bfd_split: the same with longer samples in parts
  kWrapped,         // wrapped: samples one behind the other, cut where a row ends; they see each other
};
PackingStrategy packing_strategy(std::string_view name);

// So many tokens of a sample, from one on.
struct PackedPart {
  int64_t sample, begin, tokens;
  bool operator==(const PackedPart&) const = default;
};
using PackedRow = std::vector<PackedPart>;

// Rows of at most `length` tokens, of samples of these lengths. Empty samples are in none. As in TRL samples are packed
// a thousand at a time (the batches of datasets.map), so that a row never has samples from further apart. Best fit
// decreasing after Ding et al., "Fewer truncations improve language modeling", 2024.
std::vector<PackedRow> pack_samples(std::span<const int64_t> lengths, int64_t length, PackingStrategy strategy);

// The rows of features: sequences one behind the other, and seq_idx, the number of each token's sample. The first label
// of a sample is taken away, which nothing before it predicts. Wrapped rows are one text.
std::vector<Features> packed_features(const std::vector<Features>& samples, int64_t length, PackingStrategy strategy);
// Makes each token that pads a row of a batch a text of its own.
void number_padding(Batch& batch);

}  // namespace transom
