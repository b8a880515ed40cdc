// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/drafts/prompt_lookup.h"

#include <algorithm>

namespace transom {
namespace {

constexpr ptrdiff_t kMostLookedBack = 4096;  // places where the last tokens are looked for

}  // namespace

TokenIds prompt_lookup(const TokenIds& tokens, int64_t least, int64_t longest, int64_t most) {
  const auto size = static_cast<ptrdiff_t>(tokens.size());
  if (most <= 0) return {};
  for (ptrdiff_t n = std::min<ptrdiff_t>(longest, size - 1); n >= std::max<ptrdiff_t>(least, 1); --n)
    for (ptrdiff_t place = size - n - 1; place >= 0 && place >= size - n - kMostLookedBack; --place)
      if (std::equal(tokens.end() - n, tokens.end(), tokens.begin() + place)) {
        const auto begin = tokens.begin() + place + n;
        return {begin, begin + std::min<ptrdiff_t>(most, tokens.end() - begin)};
      }
  return {};
}

}  // namespace transom
