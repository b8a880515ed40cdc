// SPDX-License-Identifier: Apache-2.0
// Greedy search and sampling.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "work/generation/search/search.h"

namespace transom {

size_t draw(std::span<const float> scores, Mt19937& random) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  static thread_local std::vector<double> terms;  // of a whole vocabulary at each token
  terms.resize(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) total += terms[i] = std::exp(static_cast<double>(scores[i]) - highest);
  if (!(total > 0) || !std::isfinite(total))
    fail("sampling: the scores of the next token are no probabilities (NaN, infinite, or all forbidden)");
  double rest = random.uniform64() * total;
  size_t last = 0;  // with a probability above 0, for what rounding leaves
  for (size_t i = 0; i < scores.size(); ++i) {
    const double p = terms[i];
    if (p == 0) continue;
    last = i;
    if ((rest -= p) < 0) break;
  }
  return last;
}

GenerationOutput choose_token_by_token(Search s) {
  const auto copies = static_cast<size_t>(s.config.num_return_sequences);
  if (s.streamer) s.streamer->put(s.rows.at(0));
  std::vector<float> scores = s.decoding.next(s.rows);
  const auto V = static_cast<size_t>(s.decoding.vocabulary());
  std::vector<TokenIds> rows;
  for (const TokenIds& prompt : s.rows) rows.insert(rows.end(), copies, prompt);
  std::vector<bool> ended(rows.size(), false);
  bool first = true;
  while (true) {
    for (size_t row = 0; row < rows.size(); ++row) {
      if (ended[row] && s.stopping.ends_of_texts()) {
        rows[row].push_back(s.padding);
        continue;
      }
      // The prompts are read once, whatever is drawn from them.
      const size_t from = first ? row / copies : row;
      std::vector<float> own(scores.begin() + static_cast<ptrdiff_t>(from * V),
                             scores.begin() + static_cast<ptrdiff_t>((from + 1) * V));
      for (const LogitsProcessor& process : s.processors) process({rows[row], row / copies, own});
      const size_t chosen = s.config.do_sample
                                ? draw(own, s.random)
                                : static_cast<size_t>(std::max_element(own.begin(), own.end()) - own.begin());
      rows[row].push_back(static_cast<int64_t>(chosen));
      if (s.streamer) s.streamer->put({static_cast<int64_t>(chosen)});
      ended[row] = ended[row] || s.stopping.ends(rows[row]);
    }
    if (std::all_of(ended.begin(), ended.end(), [](bool end) { return end; })) break;
    if (first) s.decoding.repeat(static_cast<int64_t>(copies));
    first = false;
    scores = s.decoding.next(rows);
  }
  if (s.streamer) s.streamer->end();
  return {std::move(rows), {}};
}

}  // namespace transom
