// SPDX-License-Identifier: Apache-2.0
// What SpeechT5 learns to speak by: how far spectra are from those of a sound, which frame is the last, and that what
// is read of the text goes on as the sound does (guided attention: Tachibana et al., 2017).
#include <algorithm>

#include "base/error.h"
#include "models/families/speecht5/speecht5_speech.h"
#include "models/nn/losses/loss_divisors.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr double kIgnoredFrame = -100;
constexpr double kWeightOfLastFrames = 5;  // of which there is one in each row

Tensor speecht5_distance(const Tensor& found, const Tensor& labels, const Tensor& counts,
                         const ForwardContext& context) {
  const Tensor apart = abs(cast(found, DType::kFloat32) - labels);
  return mean_of(sum(select(counts, apart, zeros(apart.shape()))), sum(cast(counts, DType::kFloat32)), context);
}

// -(5 y log p + (1 - y) log(1 - p)) of the logits, y being 1 at the last frame of a row.
Tensor speecht5_stop_loss(const Tensor& logits, const Tensor& counted, const ForwardContext& context) {
  const int64_t B = counted.dim(0), F = counted.dim(1);
  const Tensor is_frame = cast(counted, DType::kFloat32);
  const Tensor next = concatenate({slice(is_frame, 1, 1, F), zeros({B, 1})}, 1);
  const Tensor last = 1.0 - next, x = cast(logits, DType::kFloat32);
  const Tensor losses = last * softplus(-x) * kWeightOfLastFrames + next * softplus(x);
  return mean_of(sum(losses * is_frame), sum(is_frame), context);
}

Tensor speecht5_guide(const SpeechT5Config& c, const std::vector<Tensor>& seen, const Tensor& sounding,
                      const Tensor& text_mask, const ForwardContext& context) {
  std::vector<Tensor> guided;
  for (const Tensor& weights : seen) {
    const int64_t H = weights.dim(1),
                  heads = c.guided_heads < 0 ? std::max<int64_t>(H + c.guided_heads, 0) : std::min(c.guided_heads, H);
    if (heads > 0) guided.push_back(slice(weights, 1, 0, heads));
  }
  if (guided.empty()) return {};
  const Tensor weights = concatenate(guided, 1);
  const int64_t B = weights.dim(0), T = weights.dim(2), S = weights.dim(3);
  const Tensor is_step = cast(sounding, DType::kFloat32);
  const Tensor is_token = text_mask.defined()
                              ? cast(equal(text_mask, full(text_mask.shape(), 1, text_mask.dtype())), DType::kFloat32)
                              : full({B, S}, 1);
  const auto share = [](const Tensor& counts, int64_t extent) {  // of the way through its row: [B, extent]
    const Tensor all = maximum(reduce_sum(counts, {1}, true), constant(1));
    return iota({counts.dim(0), extent}, 1, DType::kFloat32) / all;
  };
  const Tensor apart = unsqueeze(share(is_token, S), 1) - unsqueeze(share(is_step, T), 2);  // [B, T, S]
  const Tensor both = unsqueeze(is_step, 2) * unsqueeze(is_token, 1);
  const Tensor away = (1.0 - exp(apart * apart * (-0.5 / (c.guided_sigma * c.guided_sigma)))) * both;
  const Tensor count = sum(both) * static_cast<double>(weights.dim(1));
  return mean_of(sum(weights * unsqueeze(away, 1)), count, context) * c.guided_scale;
}

}  // namespace

Tensor speecht5_shifted(const Tensor& labels, int64_t reduction_factor) {
  const int64_t B = labels.dim(0), F = labels.dim(1), M = labels.dim(2);
  const Tensor read = slice(labels, 1, reduction_factor - 1, F, reduction_factor);
  const Tensor shifted = concatenate({zeros({B, 1, M}, labels.dtype()), slice(read, 1, 0, read.dim(1) - 1)}, 1);
  return select(equal(shifted, full(shifted.shape(), kIgnoredFrame, shifted.dtype())),
                zeros(shifted.shape(), shifted.dtype()), shifted);
}

Tensor speecht5_loss(const SpeechT5Config& c, const SpeechT5Spectra& made, const Tensor& after, const Tensor& labels,
                     const std::vector<Tensor>& seen, const Tensor& text_mask, const ForwardContext& context) {
  const Tensor counts = not_equal(labels, full(labels.shape(), kIgnoredFrame, labels.dtype()));
  const Tensor counted = squeeze(slice(counts, 2, 0, 1), 2);  // [B, F]
  Tensor loss = speecht5_distance(after, labels, counts, context) +
                speecht5_distance(made.before, labels, counts, context) +
                speecht5_stop_loss(made.stop, counted, context);
  if (!c.guided_attention) return loss;
  const Tensor steps = slice(counted, 1, c.reduction_factor - 1, counted.dim(1), c.reduction_factor);
  const Tensor guide = speecht5_guide(c, seen, steps, text_mask, context);
  return guide.defined() ? loss + guide : loss;
}

}  // namespace transom
