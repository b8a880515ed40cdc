// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/sequence.h"

#include <algorithm>

#include "work/generation/engine/drafts/prompt_lookup.h"

namespace transom {
namespace {

constexpr int64_t kRestAfterRejection = 4;

}  // namespace

Sequence::Sequence(std::shared_ptr<const AdmittedRequest> request, int64_t index, const Tokenizer* tokenizer,
                   std::shared_ptr<BeamGroup> group)
    : request_(std::move(request)),
      group_(std::move(group)),
      index_(index),
      tokens_(request_->request.prompt.tokens),
      sampler_(request_->rules, index),
      text_(tokenizer, tokens_, request_->text_rules()) {
  if (group_) group_->join(this);
  if (!request_->only_reads()) return;
  tokens_.pop_back();
  if (tokens_.empty()) finish(FinishReason::kLength);
}

void Sequence::read_prompt(int64_t position, const SequenceScores& given) {
  const std::optional<int64_t>& count = request_->request.prompt_logprobs;
  if (!count || position != static_cast<int64_t>(prompt_.size()) || position + 1 >= request_->prompt_length()) return;
  const int64_t next = request_->request.prompt.tokens[static_cast<size_t>(position) + 1];
  prompt_.push_back(logprobs_of(given.scores, next, *count, given.logarithms));
}

void Sequence::seek_mask(double seconds) {
  try {
    sampler_.seek_mask(seconds);
  } catch (const std::exception& error) {
    return finish(FinishReason::kError, error.what());
  }
  if (waits() && is_late()) finish(FinishReason::kLength);
}

bool Sequence::is_late() const { return request_->deadline && std::chrono::steady_clock::now() >= *request_->deadline; }

void Sequence::choose(const SequenceScores& given) {
  const std::span<float> scores = given.scores;
  if (group_) {
    request_->rules->add_biases(scores);
    request_->rules->subtract_penalties(tokens_, scores);
    return group_->give(index_, scores);
  }
  if (request_->only_reads()) {
    read_prompt(length() - 1, given);
    return finish(FinishReason::kLength);
  }
  const GenerationConfig& config = request_->request.config;
  const Choice choice = sampler_.choose(tokens_, scores, given.logarithms);
  tokens_.push_back(choice.token);
  if (std::find(config.eos_token_id.begin(), config.eos_token_id.end(), choice.token) != config.eos_token_id.end()) {
    event_.end_token = choice.token;
    event_.end_logprobs = choice.logprobs;
    text_.finish_with(choice.token);
    event_.stop_text = text_.rest();
    finish(FinishReason::kStop);
    return;
  }
  sampler_.accept(choice.token);
  event_.tokens.push_back(choice.token);
  if (choice.logprobs) event_.logprobs.push_back(*choice.logprobs);
  if (text_.add(choice.token)) {
    event_.stop = text_.stop();
    event_.stop_text = text_.rest();
    finish(FinishReason::kStop);
  } else if (length() >= request_->length || is_late()) {
    finish(FinishReason::kLength);
  }
}

TokenIds Sequence::draft(int64_t most) {
  const EngineRequest& request = request_->request;
  most = std::min({most, request.prompt_lookup_num_tokens, request_->length - length() - 1});
  if (most <= 0 || group_) return {};
  if (no_drafts_ > 0) {
    --no_drafts_;
    return {};
  }
  return prompt_lookup(tokens_, 1, request.max_matching_ngram_size, most);
}

void Sequence::note_draft(int64_t accepted) {
  if (accepted == 0 && request_->request.prompt_lookup_num_tokens > 0) no_drafts_ = kRestAfterRejection;
}

void Sequence::finish(FinishReason reason, std::string error) {
  if (group_) return group_->end(reason, std::move(error));
  text_.finish();
  event_.finish = reason;
  event_.error = std::move(error);
}

void Sequence::note_cached(int64_t tokens) {
  if (!cached_) cached_ = tokens;
}

void Sequence::note_begun() {
  if (queue_seconds_) return;
  queue_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - request_->arrival).count();
}

std::optional<EngineEvent> Sequence::take() {
  if (group_) {
    std::optional<EngineEvent> event = group_->result(index_);
    if (!event) return event;
    event->cached_tokens = cached_.value_or(0);
    event->queue_seconds = group_->sequences()[0]->queue_seconds_;
    event->prompt = group_->sequences()[0]->prompt_;  // which reads it for all
    return event;
  }
  if (event_.tokens.empty() && !event_.finish) return std::nullopt;
  EngineEvent event = event_;  // `finish` stays behind, for finished()
  event_.tokens.clear(), event_.logprobs.clear();
  event.request = request_->id;
  event.index = index_;
  TextDeltas::Delta delta = text_.take();
  event.text = std::move(delta.text);
  event.pieces = std::move(delta.pieces);
  if (!told_) {
    event.prompt = prompt_;
    event.cached_tokens = cached_.value_or(0);
    event.queue_seconds = queue_seconds_;
  }
  told_ = true;
  return event;
}

}  // namespace transom
