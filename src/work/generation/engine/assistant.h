// SPDX-License-Identifier: Apache-2.0
// A smaller model that proposes what follows (Leviathan et al., "Fast inference from transformers via speculative
// decoding", 2023). It proposes greedily; whoever asks verifies, so that it has no part in what is written.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "work/generation/engine/drafts/draft.h"
#include "work/generation/engine/paged/block_pool.h"
#include "work/generation/engine/paged/paged_program.h"

namespace transom {

class Assistant {
 public:
  // `vocabulary`: of the model that verifies; tokens of others are not proposed. The cache grows to at most `blocks`.
  // Throws kUnsupported for a model that does not generate through a paged cache. The model outlives it.
  Assistant(const Model& model, int64_t vocabulary, int64_t block_size, int64_t most_tokens, int64_t blocks);

  // All texts together, a token of each at a time. Texts that it has no room for get none. An error ends its work for
  // good, with a line in the log; kInterrupted is thrown.
  void draft(std::span<Draft> drafts);
  void forget(const Sequence& sequence);

 private:
  struct Held {
    std::vector<int32_t> blocks;
    TokenIds seen;  // tokens whose keys and values are there
  };
  struct Work {
    Draft* draft;
    Held* held;
  };
  void propose(std::span<Draft> drafts);
  void read(std::vector<Work>& works);
  bool reserve(Held& held, int64_t tokens);
  bool prepare(const Draft& draft, Held& held);

  const GenerativeModel& model_;
  const int64_t vocabulary_, own_vocabulary_, block_size_, most_tokens_, most_blocks_, limit_;
  PagedProgram program_;
  BlockPool pool_;
  std::map<const Sequence*, Held> held_;
  bool ended_ = false;
};

}  // namespace transom
