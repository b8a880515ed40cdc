// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/beam_group.h"

#include <algorithm>

#include "work/generation/engine/sequence.h"

namespace transom {

BeamGroup::BeamGroup(std::shared_ptr<const AdmittedRequest> request, const Tokenizer* tokenizer)
    : request_(std::move(request)),
      tokenizer_(tokenizer),
      stopping_(request_->request.config, request_->length, tokenizer,
                request_->prompt_length() + request_->request.stop_strings_after),
      beams_(request_->request.config, stopping_, request_->length, request_->request.prompt.tokens),
      random_(request_->request.config.seed),
      given_(static_cast<size_t>(request_->request.config.num_beams), true) {
  given_[0] = false;
  if (const auto& count = request_->request.logprobs) beams_.keep_logprobs(*count);
}

void BeamGroup::give(int64_t index, std::span<const float> scores) {
  const auto place = static_cast<size_t>(index);
  vocabulary_ = scores.size();
  scores_.resize((first_ ? 1 : given_.size()) * vocabulary_);
  std::copy(scores.begin(), scores.end(), scores_.begin() + static_cast<ptrdiff_t>(place * vocabulary_));
  given_[place] = true;
}

bool BeamGroup::is_complete() const {
  return std::all_of(given_.begin(), given_.end(), [](bool given) { return given; });
}

std::vector<size_t> BeamGroup::advance() {
  beams_.advance(scores_, vocabulary_, request_->rules->beam_processors(), 0, random_);
  first_ = false;
  given_.assign(given_.size(), false);
  std::vector<size_t> sources;
  for (const Beam& beam : beams_.running()) sources.push_back(beam.source);
  if (beams_.is_over()) end(FinishReason::kStop, {});
  return sources;
}

const TokenIds& BeamGroup::tokens(int64_t index) const { return beams_.running()[static_cast<size_t>(index)].tokens; }

void BeamGroup::end(FinishReason reason, std::string error) {
  if (reason_) return;
  reason_ = reason;
  error_ = std::move(error);
}

std::optional<EngineEvent> BeamGroup::result(int64_t index) const {
  if (!reason_ || index >= request_->request.config.num_return_sequences) return std::nullopt;
  EngineEvent event;
  if (*reason_ == FinishReason::kStop) {
    event = text_of(beams_.finished()[static_cast<size_t>(index)]);
  } else {
    event.finish = reason_;
    event.error = error_;
  }
  event.request = request_->id;
  event.index = index;
  return event;
}

EngineEvent BeamGroup::text_of(const Beam& beam) const {
  const EngineRequest& request = request_->request;
  EngineEvent event;
  event.score = beam.score;
  event.finish = FinishReason::kLength;
  event.tokens.assign(beam.tokens.begin() + request_->prompt_length(), beam.tokens.end());
  const TokenIds& ends = request.config.eos_token_id;
  if (!event.tokens.empty() && std::find(ends.begin(), ends.end(), event.tokens.back()) != ends.end()) {
    event.end_token = event.tokens.back();
    event.finish = FinishReason::kStop;
    event.tokens.pop_back();
    if (event.tokens.size() < beam.logprobs.size()) event.end_logprobs = *beam.logprobs[event.tokens.size()];
  }
  for (size_t i = 0; i < event.tokens.size() && i < beam.logprobs.size(); ++i)
    event.logprobs.push_back(*beam.logprobs[i]);
  TextDeltas text(tokenizer_, request.prompt.tokens, request_->text_rules());
  for (const int64_t token : event.tokens)
    if (text.add(token)) {
      event.stop = text.stop();
      event.finish = FinishReason::kStop;
      break;
    }
  if (event.end_token && !event.stop) text.finish_with(*event.end_token);
  else text.finish();
  TextDeltas::Delta delta = text.take();
  event.text = std::move(delta.text);
  event.pieces = std::move(delta.pieces);
  event.stop_text = text.rest();
  return event;
}

}  // namespace transom
