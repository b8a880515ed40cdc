// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/sampler.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

// Biases first, then the factor, then what is subtracted: the order of vLLM and of text-generation-inference.
TEST(Sampler, PenaltiesAreSubtractedFromWhatRepetitionsHaveLeft) {
  EngineRequest request;
  request.prompt = {0};
  request.config.repetition_penalty = 2;
  request.presence_penalty = 0.5;
  request.frequency_penalty = 0.25;
  request.logit_bias = {{1, 1.0}};
  request.logprobs = 4;
  Sampler sampler(std::make_shared<SamplingRules>(request, 10, 4), 0);
  std::vector<float> scores{-1, 3, 0.75, 0};
  const Choice choice = sampler.choose({0, 1, 1}, scores);
  EXPECT_EQ(choice.token, 1);
  std::vector<float> logprobs(4);
  for (const auto& [token, logprob] : choice.logprobs.value().top) logprobs[static_cast<size_t>(token)] = logprob;
  EXPECT_NEAR(logprobs[1] - logprobs[2], (3 + 1) / 2.0 - 0.5 - 2 * 0.25 - 0.75, 1e-6);
  EXPECT_NEAR(logprobs[0] - logprobs[3], -1 * 2, 1e-6);  // of the prompt: no penalty but the factor
}

}  // namespace
}  // namespace transom
