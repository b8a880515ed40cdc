// SPDX-License-Identifier: Apache-2.0
// The drafts of a step: by which method, and how many tokens of them.
#pragma once

#include <optional>
#include <span>

#include "work/generation/engine/assistant.h"
#include "work/generation/engine/drafts/draft_pace.h"
#include "work/generation/engine/drafts/head_drafts.h"
#include "work/generation/engine/drafts/suffix_drafts.h"

namespace transom {

class StepDrafts {
 public:
  // `most_tokens`: of a step; `most_blocks`: of the cache of an assistant; `again` as of DraftPace. The model's
  // program, which a head goes through, outlives it.
  StepDrafts(const GenerativeModel& model, PagedProgram& program, const EngineOptions& options, int64_t most_tokens,
             int64_t most_blocks, int64_t again);
  StepDrafts(const StepDrafts&) = delete;
  StepDrafts& operator=(const StepDrafts&) = delete;
  // Whether there is a method for the text.
  bool has_method_for(const Sequence& sequence) const;
  // At most so many tokens.
  int64_t most() const { return assistant_ ? assistant_tokens_ : options_.tokens; }
  // Behind texts that need one token more, of which the step has `rows`, and room for `left` tokens beside them: at
  // most draft.most tokens each.
  void make(std::span<Draft> drafts, int64_t rows, int64_t left, EngineStatistics& statistics);
  // Behind a pass of the model, as of HeadDrafts.
  void follow(std::span<const StepPart* const> parts, const PagedPass& pass) {
    if (head_) head_->follow(parts, pass);
  }
  // A step that read no prompts took so long.
  void note_step(int64_t tokens, double seconds) { pace_.note_step(tokens, seconds); }
  void note_result(const Draft& draft, int64_t drafted, int64_t accepted) {
    pace_.note_result(draft, drafted, accepted);
  }
  void forget(const Sequence& sequence);

 private:
  void look_up(std::span<Draft> drafts);
  void take_from_head(std::span<Draft> drafts, int64_t left, EngineStatistics& statistics);
  const DraftOptions options_;
  const int64_t assistant_tokens_;
  std::optional<Assistant> assistant_;
  std::optional<SuffixDrafts> suffixes_;
  DraftPace pace_;
  std::optional<HeadDrafts> head_;
};

}  // namespace transom
