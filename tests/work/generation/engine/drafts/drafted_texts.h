// SPDX-License-Identifier: Apache-2.0
// All that an engine writes, to be compared with what another one does.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "transom/engine.h"

namespace transom::test {

struct DraftedText {
  TokenIds tokens;
  std::vector<float> logprobs;
  std::optional<FinishReason> finish;
  bool operator==(const DraftedText&) const = default;
};
using DraftedTexts = std::map<std::pair<uint64_t, int64_t>, DraftedText>;

inline DraftedTexts texts_of(Engine& engine, std::vector<EngineRequest> requests) {
  DraftedTexts texts;
  const auto collect = [&] {
    for (const EngineEvent& event : engine.take()) {
      DraftedText& text = texts[{event.request, event.index}];
      text.tokens.insert(text.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenLogprobs& each : event.logprobs) text.logprobs.push_back(each.logprob);
      if (event.finish) text.finish = event.finish;
      EXPECT_EQ(event.error, "");
    }
  };
  for (EngineRequest& request : requests) engine.add(std::move(request));
  while (engine.step()) collect();
  collect();
  EXPECT_EQ(engine.statistics().blocks_used, 0);
  return texts;
}

}  // namespace transom::test
