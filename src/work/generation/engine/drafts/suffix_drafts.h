// SPDX-License-Identifier: Apache-2.0
// Drafts of what has been written before (Oliaro et al., "SuffixDecoding: extreme speculative decoding for emerging AI
// applications", 2024): where the last tokens of a text stand in it and in earlier answers, what followed them most
// often. Only answers to requests of the same tenant and salt are asked: how fast a text comes would tell what others
// were told.
#pragma once

#include <list>
#include <map>
#include <string>
#include <vector>

#include "work/generation/engine/drafts/draft.h"
#include "work/generation/engine/drafts/token_chains.h"

namespace transom {

class SuffixDrafts {
 public:
  explicit SuffixDrafts(const DraftOptions& options);

  // At most draft.most tokens, and how many tokens were matched.
  void draft(Draft& draft);
  // The text has ended: what it wrote may come again in others.
  void keep(const Sequence& sequence);
  void forget(const Sequence& sequence) { texts_.erase(&sequence); }
  int64_t bytes() const { return bytes_; }  // of the answers, about

 private:
  // Answers of one tenant and salt, as far as a part has room; parts go as a whole.
  struct Part {
    std::string group;
    TokenChains places;
  };
  using Parts = std::list<Part>;
  void drop_oldest();
  Parts::iterator part_for(const std::string& group);

  const DraftOptions options_;
  std::map<const Sequence*, TokenChains> texts_;
  Parts parts_;                                               // in the order of their beginnings
  std::map<std::string, std::list<Parts::iterator>> groups_;  // the parts of each, the latest last
  int64_t bytes_ = 0;
};

}  // namespace transom
