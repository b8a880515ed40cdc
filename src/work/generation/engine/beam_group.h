// SPDX-License-Identifier: Apache-2.0
// The sequences of a request that searches with beams. Each is computed like any other; when the scores behind all of
// them are there, the search chooses the next texts, which go on from texts of any of the sequences.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transom/engine.h"
#include "work/generation/search/beams.h"

namespace transom {

class Sequence;
struct AdmittedRequest;

class BeamGroup {
 public:
  // At first the sequence 0 alone reads the prompt; the others wait for it.
  BeamGroup(std::shared_ptr<const AdmittedRequest> request, const Tokenizer* tokenizer);

  // Sequences join in the order of their numbers, and leave together.
  void join(Sequence* sequence) { sequences_.push_back(sequence); }
  const std::vector<Sequence*>& sequences() const { return sequences_; }

  // Whether the sequence has given its scores and waits for those of others.
  bool waits(int64_t index) const { return given_[static_cast<size_t>(index)]; }
  // The scores [V] behind the text of the sequence.
  void give(int64_t index, std::span<const float> scores);
  bool is_complete() const;
  // All scores are there: chooses the next texts. Sequence i goes on from what sequence result[i] had; nothing is left
  // to compute if has_ended(). Throws where no token is left.
  std::vector<size_t> advance();
  const TokenIds& tokens(int64_t index) const;

  void end(FinishReason reason, std::string error);
  bool has_ended() const { return reason_.has_value(); }
  // The news of the sequence once the search has ended: the text of that rank. None for more than are returned.
  std::optional<EngineEvent> result(int64_t index) const;

 private:
  EngineEvent text_of(const Beam& beam) const;
  std::shared_ptr<const AdmittedRequest> request_;
  const Tokenizer* tokenizer_;
  Stopping stopping_;
  Beams beams_;
  Mt19937 random_;
  std::vector<Sequence*> sequences_;
  std::vector<bool> given_;
  std::vector<float> scores_;  // [num_beams, V]; at first [1, V]
  size_t vocabulary_ = 0;
  bool first_ = true;
  std::optional<FinishReason> reason_;
  std::string error_;
};

}  // namespace transom
