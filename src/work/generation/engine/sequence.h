// SPDX-License-Identifier: Apache-2.0
// A request that the engine has taken, and its sequences.
#pragma once

#include <chrono>
#include <memory>

#include "models/generative.h"
#include "transom/engine.h"
#include "work/generation/engine/beam_group.h"
#include "work/generation/engine/engine_adapters.h"
#include "work/generation/engine/sampler.h"
#include "work/generation/engine/text_deltas.h"

namespace transom {

// Immutable; the sequences of a request share it.
struct AdmittedRequest {
  uint64_t id = 0;
  EngineRequest request;
  int64_t length = 0;  // the most tokens of a sequence, with its prompt
  std::shared_ptr<const SamplingRules> rules;
  std::vector<std::string> contents;       // of each attached input, content_of()
  std::string seen_by_all;                 // contents that the first token hangs on
  std::optional<TextPositions> positions;  // of a model with several axes
  RequestAdapter adapter;
  std::chrono::steady_clock::time_point arrival{};
  std::optional<std::chrono::steady_clock::time_point> deadline;

  // That run at once.
  int64_t sequences() const {
    const GenerationConfig& config = request.config;
    return config.num_beams > 1 ? config.num_beams : config.num_return_sequences;
  }
  TextDeltas::Rules text_rules() const {
    return {request.config.stop_strings, request.stop_strings_after, request.skip_special_tokens};
  }
  int64_t prompt_length() const { return static_cast<int64_t>(request.prompt.tokens.size()); }
  // Nothing is written: the request asks for the log probabilities of its prompt alone.
  bool only_reads() const { return request.config.max_new_tokens == 0; }
};

// The scores [V] of a token to come, and the logarithms of their softmax where the device has given them, else nothing.
struct SequenceScores {
  std::span<float> scores;
  std::span<const float> logarithms = {};
};

class Sequence {
 public:
  // With a group it is a beam, which joins the group.
  Sequence(std::shared_ptr<const AdmittedRequest> request, int64_t index, const Tokenizer* tokenizer,
           std::shared_ptr<BeamGroup> group = nullptr);

  const AdmittedRequest& request() const { return *request_; }
  int64_t index() const { return index_; }
  // With the prompt; of a request that only reads without its last token, behind which nothing is asked for.
  const TokenIds& tokens() const { return tokens_; }
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  bool finished() const { return event_.finish || (group_ && group_->has_ended()); }

  BeamGroup* group() const { return group_.get(); }  // null: no beam
  // It cannot go on at this step: a beam whose scores are there, while those of others are not; or which tokens its
  // constraint allows is not known.
  bool waits() const { return group_ ? group_->waits(index_) : mask() != Sampler::Mask::kKnown; }
  Sampler::Mask mask() const { return sampler_.mask(); }
  // Looks for the tokens that the constraint allows, for about so many seconds. Finishes where that fails, and where
  // they are not found before the request's time is over.
  void seek_mask(double seconds);
  // Of a beam: takes the text that the group has chosen for it.
  void take_text() { tokens_ = group_->tokens(index_); }

  // Of whoever computes: how many of the tokens the model has seen, so that their keys and values are there.
  int64_t seen = 0;

  // The scores of what follows the prompt's token at `position`, for prompt_logprobs. In order; a position that comes
  // again, after preemption, is ignored.
  void read_prompt(int64_t position, const SequenceScores& given);
  // Chooses the next token by the scores that follow tokens(), which are changed. A beam gives them to its group.
  void choose(const SequenceScores& given);
  // Prompt lookup: at most `most` tokens that followed the last ones where these stood before. A draft of which nothing
  // was accepted makes the next steps go without.
  TokenIds draft(int64_t most);
  void note_draft(int64_t accepted);
  void finish(FinishReason reason, std::string error = {});
  void note_cached(int64_t tokens);  // of the prompt, found in the prefix cache; the first call counts
  void note_begun();                 // a step reads it; the first call counts

  // What has happened since the last call; nothing if that is nothing.
  std::optional<EngineEvent> take();

 private:
  bool is_late() const;
  std::shared_ptr<const AdmittedRequest> request_;
  std::shared_ptr<BeamGroup> group_;
  int64_t index_;
  TokenIds tokens_;
  Sampler sampler_;
  TextDeltas text_;
  std::vector<TokenLogprobs> prompt_;
  std::optional<int64_t> cached_;
  std::optional<double> queue_seconds_;
  bool told_ = false;      // whether an event has been taken
  int64_t no_drafts_ = 0;  // steps without a draft that are to come
  EngineEvent event_;
};

}  // namespace transom
