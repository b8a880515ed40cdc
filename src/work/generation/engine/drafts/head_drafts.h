// SPDX-License-Identifier: Apache-2.0
// Drafts of a head that reads the model's hidden states. It follows behind each pass of the model, over the same
// tokens: its keys lie in the blocks of theirs, so that shared beginnings are shared for it too. Its drafts are for the
// next step. A text whose drafts are not worth their time, or of which it has missed a pass, goes on without it.
#pragma once

#include <map>
#include <span>

#include "work/generation/engine/drafts/draft_pace.h"
#include "work/generation/engine/paged/paged_pass.h"
#include "work/generation/engine/paged/step_part.h"

namespace transom {

class HeadDrafts {
 public:
  // All outlive it. At most `most` tokens a draft, and `most_tokens` a pass.
  HeadDrafts(PagedProgram& program, const DraftHead& head, DraftPace& pace, int64_t most, int64_t block_size,
             int64_t most_tokens)
      : program_(program), head_(head), pace_(pace), most_(most), block_size_(block_size), most_tokens_(most_tokens) {}

  // Behind `pass`, which computed the parts and whose results they have read. Throws what PagedProgram::run_head
  // throws.
  void follow(std::span<const StepPart* const> parts, const PagedPass& pass);
  // The draft that was made for the text as it is now.
  TokenIds take(const Sequence& sequence);
  void forget(const Sequence& sequence) {
    seen_.erase(&sequence);
    drafts_.erase(&sequence);
  }

 private:
  struct Writing {
    const StepPart* part;
    int64_t count = 0;  // tokens that are drafted
    TokenIds tokens = {};
    std::vector<float> states = {};  // of the head, behind the last of them
  };
  bool follows(const StepPart& part);
  std::vector<Writing> first_tokens(std::span<const StepPart* const> parts, const PagedPass& pass);
  void choose_counts(std::vector<Writing>& writings);
  void next_tokens(std::vector<Writing*>& some);
  void read(Writing& writing, const PagedProgram::HeadResult& result, size_t row) const;

  PagedProgram& program_;
  const DraftHead& head_;
  DraftPace& pace_;
  const int64_t most_, block_size_, most_tokens_;
  std::map<const Sequence*, int64_t> seen_;  // tokens behind which the head has been; -1: it has missed some
  std::map<const Sequence*, std::pair<int64_t, TokenIds>> drafts_;  // for a text of that length
};

}  // namespace transom
