// SPDX-License-Identifier: Apache-2.0
// What computes the scores of the engine's sequences.
#pragma once

#include <exception>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "models/generative.h"
#include "work/generation/engine/sequence.h"

namespace transom {

class Runner {
 public:
  virtual ~Runner() = default;
  // One iteration: which of the sequences take part, how far they come, and with those whose tokens have all been seen,
  // what follows (Sequence::choose). Sequences are in the order in which they are to go first. One that fails is
  // finished with the error; kInterrupted is thrown. False if nothing could be done.
  virtual bool step(std::span<const std::unique_ptr<Sequence>> sequences, EngineStatistics& statistics) = 0;
  // What is held for a sequence is given up.
  virtual void forget(Sequence& sequence) = 0;
  // What was made for adapters goes, but for those with these numbers.
  virtual void keep_adapters(const std::set<size_t>& /*used*/) {}
  // Sets the numbers of blocks, and the failure.
  virtual void measure(EngineStatistics&) const {}
};

// All sequences together, by way of a paged cache; null for a model whose attention cannot be paged. Texts get no
// longer than `length`.
std::unique_ptr<Runner> make_paged(const GenerativeModel& model, const EngineOptions& options, int64_t length);

// Each sequence by itself, through a cache of its own: for models whose attention cannot be paged.
std::unique_ptr<Runner> make_row_by_row(const GenerativeModel& model);

}  // namespace transom
