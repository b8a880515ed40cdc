// SPDX-License-Identifier: Apache-2.0
// A picture that is being drawn, step by step. Requests that are drawn together ask the network at once, whatever their
// schedules: each has rows of its own in one pass. B rows of a question.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "transom/model.h"

namespace transom {

// Numbers [B, C, h, w] of B pictures.
struct Latents {
  Shape shape;
  std::vector<float> values;
};

class PictureRun {
 public:
  virtual ~PictureRun() = default;
  // What the network is asked: of each row, or in one row what all have; and what rows of any number share.
  struct Question {
    NamedTensors rows, shared;
    int64_t count = 1;  // B
  };
  virtual bool finished() const = 0;
  virtual std::vector<Question> questions() const = 0;  // of the next step
  // What the network says to each of them, [B, ...]: the step is taken.
  virtual void answer(const std::vector<std::vector<float>>& said) = 0;
  virtual const Latents& now() const = 0;
};

// One step of each run. Questions about maps of one size with rows of one form go through the network together.
void step_together(const Model& network, std::span<const std::unique_ptr<PictureRun>> runs);

}  // namespace transom
