// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/paged_pass.h"

#include <algorithm>

#include "work/generation/engine/paged/step_shape.h"

namespace transom {
namespace {

// Makes room for rows where the pass had none.
void give_row(PagedPass& pass, int64_t at, int64_t tokens, std::span<const float> row) {
  pass.embeddings.resize(static_cast<size_t>(tokens) * row.size(), 0);
  pass.is_given.resize(static_cast<size_t>(tokens), 0);
  pass.is_given[static_cast<size_t>(at)] = 1;
  std::copy(row.begin(), row.end(), pass.embeddings.begin() + at * static_cast<ptrdiff_t>(row.size()));
}

}  // namespace

PagedPass pass_of(std::span<const PassToken> silent, std::span<const PassToken> scored, int64_t block_size,
                  int64_t most_tokens, const TokenWidths& widths) {
  const auto blocks_for = [&](const PassToken& token) { return token.place / block_size + 1; };
  int64_t longest = 1;
  for (const auto& some : {silent, scored})
    for (const PassToken& token : some) longest = std::max(longest, blocks_for(token));
  const auto tokens = static_cast<int64_t>(silent.size() + scored.size());
  const int64_t N = std::min(rounded_tokens(tokens), most_tokens);
  const auto padding = static_cast<size_t>(N - tokens);
  PagedPass pass;
  pass.blocks = rounded_blocks(longest);
  pass.scored = std::min(N, rounded_scored(static_cast<int64_t>(scored.size()), tokens));
  pass.ids.assign(padding, 0);
  pass.positions.assign(static_cast<size_t>(widths.position_axes * N), 0);
  pass.slots.assign(padding, -1);
  pass.lengths.assign(padding, 1);
  pass.block_tables.assign(static_cast<size_t>(N * pass.blocks), 0);
  auto table = pass.block_tables.begin() + (N - tokens) * pass.blocks;
  for (const auto& some : {silent, scored})
    for (const PassToken& token : some) {
      const auto at = static_cast<int64_t>(pass.ids.size());
      pass.ids.push_back(token.row ? 0 : token.id);  // a place that is filled may have any token
      for (int64_t axis = 0; axis < widths.position_axes; ++axis)
        pass.positions[static_cast<size_t>(axis * N + at)] =
            token.positions ? token.positions->at(static_cast<size_t>(axis), token.place) : token.place;
      if (token.row) give_row(pass, at, N, {token.row, static_cast<size_t>(widths.embedding)});
      pass.slots.push_back((*token.blocks)[static_cast<size_t>(token.place / block_size)] * block_size +
                           token.place % block_size);
      pass.lengths.push_back(static_cast<int32_t>(token.place + 1));
      std::copy_n(token.blocks->begin(), blocks_for(token), table);
      table += pass.blocks;
    }
  if (widths.source == 0) return pass;
  std::vector<SeenBlocks> seen(padding);
  for (const auto& some : {silent, scored})
    for (const PassToken& token : some) seen.push_back(token.sources);
  pass.sources = source_numbers(seen, widths.source);
  return pass;
}

}  // namespace transom
