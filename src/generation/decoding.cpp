// SPDX-License-Identifier: Apache-2.0
#include "generation/decoding.h"

#include "base/error.h"
#include "transom/ops.h"

namespace transom {

Decoding::Decoding(const GenerativeModel& model, NamedTensors encoder_inputs, std::vector<TokenIds> mask,
                   bool use_cache)
    : model_(model), encoder_inputs_(std::move(encoder_inputs)), mask_(std::move(mask)), use_cache_(use_cache) {}

// An empty cache, with what the encoder makes of its inputs.
void Decoding::restart() {
  std::vector<int64_t> mask;
  for (const TokenIds& row : mask_) mask.insert(mask.end(), row.begin(), row.end());
  auto fresh = std::make_unique<KeyValueCache>(static_cast<int64_t>(mask_.size()), std::move(mask));
  if (model_.has_encoder() && cache_) {
    fresh->encoder_states = cache_->encoder_states;
    fresh->encoder_mask = cache_->encoder_mask;
    fresh->encoder_layers = cache_->encoder_layers;
  } else if (model_.has_encoder()) {
    ForwardContext context;
    context.cache = fresh.get();
    model_.encode(encoder_inputs_, context);
    eval({fresh->encoder_states});
  }
  cache_ = std::move(fresh);
}

std::vector<float> Decoding::next(const std::vector<TokenIds>& rows) {
  const NoGradient inference;
  const auto length = static_cast<int64_t>(rows[0].size());
  if (!cache_ || !use_cache_ || length == model_.cache_expires_at()) restart();
  const int64_t seen = cache_->length(), coming = length - seen;
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<int64_t> ids, positions;
  for (size_t row = 0; row < rows.size(); ++row) {
    const TokenIds& mask = mask_[row];
    int64_t place = 0;  // among the tokens that are no padding
    for (int64_t t = 0; t < length; ++t) {
      const bool token = t >= static_cast<int64_t>(mask.size()) || mask[static_cast<size_t>(t)] != 0;
      if (t >= seen) {
        ids.push_back(rows[row][static_cast<size_t>(t)]);
        positions.push_back(token ? place : 0);
      }
      place += token;
    }
  }
  cache_->begin(coming);
  ForwardContext context;
  context.cache = cache_.get();
  const Tensor logits =
      model_.next_logits(Tensor::from(ids, {count, coming}), Tensor::from(positions, {count, coming}), context);
  // One program for the scores and all that the next step goes on from.
  std::vector<Tensor> all = cache_->tensors();
  all.push_back(logits);
  eval(all);
  all.clear();
  cache_->end();
  vocabulary_ = logits.dim(1);
  return logits.to_vector<float>();
}

void Decoding::repeat(int64_t times) {
  if (times == 1) return;
  std::vector<TokenIds> mask;
  for (const TokenIds& row : mask_) mask.insert(mask.end(), static_cast<size_t>(times), row);
  mask_ = std::move(mask);
  cache_->repeat(times);
}

void Decoding::reorder(const std::vector<int64_t>& sources) {
  bool same = true;
  for (size_t i = 0; i < sources.size(); ++i) same &= sources[i] == static_cast<int64_t>(i);
  if (same || !use_cache_) return;
  const NoGradient inference;
  cache_->reorder(Tensor::from(sources, {static_cast<int64_t>(sources.size())}));
}

}  // namespace transom
