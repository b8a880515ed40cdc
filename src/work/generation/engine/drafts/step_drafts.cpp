// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/drafts/step_drafts.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "files/config/config.h"
#include "files/config/model_config.h"
#include "work/generation/engine/drafts/prompt_lookup.h"

namespace transom {
namespace {

using Method = DraftOptions::Method;

}  // namespace

StepDrafts::StepDrafts(const GenerativeModel& model, PagedProgram& program, const EngineOptions& options,
                       int64_t most_tokens, int64_t most_blocks, int64_t again)
    : options_(options.drafts), assistant_tokens_(options.num_assistant_tokens), pace_(options.drafts.measured, again) {
  if (options.assistant)
    assistant_.emplace(*options.assistant,
                       text_config_of(model.config()).get_int("vocab_size", std::numeric_limits<int64_t>::max()),
                       options.block_size, most_tokens, most_blocks);
  if (options_.method == Method::kSuffix) suffixes_.emplace(options_);
  if (options_.method == Method::kHead)
    head_.emplace(program, *options_.head, pace_, options_.tokens, options.block_size, most_tokens);
}

bool StepDrafts::has_method_for(const Sequence& sequence) const {
  const EngineRequest& request = sequence.request().request;
  if (sequence.group() || request.prompt_lookup_num_tokens > 0) return false;
  if (assistant_) return request.prompt.attached.empty();  // it reads tokens alone
  return options_.method != Method::kNone;
}

void StepDrafts::look_up(std::span<Draft> drafts) {
  for (Draft& draft : drafts) {
    if (suffixes_) suffixes_->draft(draft);
    else
      draft.tokens = prompt_lookup(draft.sequence->tokens(), options_.lookup_least, options_.lookup_most, draft.most);
    draft.most = static_cast<int64_t>(draft.tokens.size());
  }
}

// Those of a head are there since the last step, as long as they were worth it then.
void StepDrafts::take_from_head(std::span<Draft> drafts, int64_t left, EngineStatistics& statistics) {
  for (Draft& draft : drafts) {
    const bool asks = draft.most > 0;
    draft.tokens = head_->take(*draft.sequence);
    const int64_t count = std::min({static_cast<int64_t>(draft.tokens.size()), draft.most, left});
    draft.tokens.resize(static_cast<size_t>(std::max<int64_t>(count, 0)));
    left -= std::max<int64_t>(count, 0);
    statistics.steps_without_drafts += asks && draft.tokens.empty();
  }
}

void StepDrafts::make(std::span<Draft> drafts, int64_t rows, int64_t left, EngineStatistics& statistics) {
  if (head_) return take_from_head(drafts, left, statistics);
  if (!assistant_) look_up(drafts);
  const std::vector<int64_t> counts = pace_.worth(drafts, rows, left);
  int64_t longest = 0;
  for (size_t i = 0; i < drafts.size(); ++i) {
    statistics.steps_without_drafts += drafts[i].most > 0 && counts[i] == 0;
    drafts[i].most = counts[i];
    drafts[i].tokens.resize(std::min(drafts[i].tokens.size(), static_cast<size_t>(counts[i])));
    longest = std::max(longest, counts[i]);
  }
  if (!assistant_ || longest == 0) return;
  const auto start = std::chrono::steady_clock::now();
  assistant_->draft(drafts);
  pace_.note_drafting(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

void StepDrafts::forget(const Sequence& sequence) {
  if (assistant_) assistant_->forget(sequence);
  if (suffixes_) {
    suffixes_->keep(sequence);
    suffixes_->forget(sequence);
  }
  if (head_) head_->forget(sequence);
  pace_.forget(sequence);
}

}  // namespace transom
