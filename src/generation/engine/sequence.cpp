// SPDX-License-Identifier: Apache-2.0
#include "generation/engine/sequence.h"

#include <algorithm>

namespace transom {

Sequence::Sequence(std::shared_ptr<const TakenRequest> request, int64_t index, const Tokenizer* tokenizer)
    : request_(std::move(request)),
      index_(index),
      tokens_(request_->request.prompt),
      sampler_(request_->rules, index),
      text_(tokenizer, tokens_, request_->request.config.stop_strings) {}

void Sequence::read_prompt(int64_t position, std::span<const float> scores) {
  const std::optional<int64_t>& count = request_->request.prompt_logprobs;
  if (!count || position != static_cast<int64_t>(prompt_.size()) || position + 1 >= request_->prompt_length()) return;
  prompt_.push_back(logprobs_of(scores, tokens_[static_cast<size_t>(position) + 1], *count));
}

void Sequence::choose(std::span<float> scores) {
  const GenerationConfig& config = request_->request.config;
  const Choice choice = sampler_.choose(tokens_, scores);
  tokens_.push_back(choice.token);
  if (std::find(config.eos_token_id.begin(), config.eos_token_id.end(), choice.token) != config.eos_token_id.end()) {
    event_.end_token = choice.token;
    finish(FinishReason::kStop);
    return;
  }
  sampler_.accept(choice.token);
  event_.tokens.push_back(choice.token);
  if (choice.logprobs) event_.logprobs.push_back(*choice.logprobs);
  if (text_.add(choice.token)) {
    event_.stop = text_.stop();
    finish(FinishReason::kStop);
  } else if (length() >= request_->length ||
             (request_->deadline && std::chrono::steady_clock::now() >= *request_->deadline)) {
    finish(FinishReason::kLength);
  }
}

void Sequence::finish(FinishReason reason, std::string error) {
  text_.finish();
  event_.finish = reason;
  event_.error = std::move(error);
}

void Sequence::note_cached(int64_t tokens) {
  if (!cached_) cached_ = tokens;
}

std::optional<EngineEvent> Sequence::take() {
  if (event_.tokens.empty() && !event_.finish) return std::nullopt;
  EngineEvent event = event_;  // `finish` stays behind, for finished()
  event_.tokens.clear(), event_.logprobs.clear();
  event.request = request_->id;
  event.index = index_;
  event.text = text_.take();
  if (!told_) {
    event.prompt = prompt_;
    event.cached_tokens = cached_.value_or(0);
  }
  told_ = true;
  return event;
}

}  // namespace transom
