// SPDX-License-Identifier: Apache-2.0
// Layers beside a model that predict further tokens from its hidden states: of each place they read the states that the
// model has there and the token behind it, and predict the one after that. Then they go on from what they made
// themselves. Letters: N places of a pass, K of them whose scores are asked for, D width of the model, E of the head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/generative.h"

namespace transom {

class DraftHead {
 public:
  virtual ~DraftHead() = default;
  struct Predicted {
    Tensor logits;  // f32 [K, rows of tokens()]
    Tensor states;  // f32 [K, E]
  };
  // `ids` i64 [1, N]: the token behind each place; `positions` i64 [1, N] of the places; `states` f32 [1, N, reads() D]
  // of the model where `first`, else [1, N, E] of the head's pass before. One layer keeps keys in context.cache.
  virtual Predicted operator()(const Tensor& ids, const Tensor& positions, const Tensor& states, bool first,
                               int64_t scored, ForwardContext& context) const = 0;
  // Which of the model's hidden_states lie side by side in its states; 0 are the embeddings.
  virtual std::vector<size_t> reads() const = 0;
  virtual int64_t width() const = 0;  // E
  // The token of a row of the logits.
  virtual int64_t token_of(int64_t row) const { return row; }
  virtual int64_t max_positions() const { return 0; }  // 0: no limit
};

// The head of multi-token prediction that the checkpoint of `model` holds beside it (DeepSeek-AI, "DeepSeek-V3
// technical report", 2024): as the layer behind its last one, or under "mtp.". Throws where there is none. The model
// outlives it.
std::unique_ptr<DraftHead> load_mtp_head(const std::string& directory, const GenerativeModel& model,
                                         const LoadOptions& options);
// A head of EAGLE-3 (Li et al., "EAGLE-3: scaling up inference acceleration of large language models via training-time
// test", 2025) in its directory: config.json, and fc, midlayer, norm, lm_head, d2t and t2d. The model outlives it.
std::unique_ptr<DraftHead> load_eagle3_head(const std::string& directory, const GenerativeModel& model,
                                            const LoadOptions& options);

}  // namespace transom
