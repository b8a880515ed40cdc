// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/mask_turns.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace transom {

bool MaskTurns::take(std::span<const std::unique_ptr<Sequence>> sequences) {
  const auto begin = std::chrono::steady_clock::now();
  const auto left = [&] {
    return kSecondsOfStep - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  using Mask = Sampler::Mask;
  std::vector<Sequence*> slow;
  for (const std::unique_ptr<Sequence>& sequence : sequences) {
    if (sequence->finished()) continue;
    if (sequence->mask() == Mask::kNotAsked) sequence->seek_mask(kSecondsAtFirst);
    if (sequence->mask() == Mask::kSought && !sequence->finished()) slow.push_back(sequence.get());
  }
  const size_t count = slow.size();
  for (size_t i = 0; i < count && (i == 0 || left() > 0); ++i)
    slow[turn_++ % count]->seek_mask(std::max(left(), kSecondsAtFirst));
  return std::any_of(slow.begin(), slow.end(), [](const Sequence* sequence) {
    return !sequence->finished() && sequence->mask() != Mask::kKnown;
  });
}

}  // namespace transom
