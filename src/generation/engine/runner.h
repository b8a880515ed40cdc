// SPDX-License-Identifier: Apache-2.0
// What computes the scores of the engine's sequences.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "generation/engine/sequence.h"
#include "models/generative.h"

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
};

// Each sequence by itself, through a cache of its own: for models whose attention cannot be paged.
std::unique_ptr<Runner> make_row_by_row(const GenerativeModel& model);

}  // namespace transom
