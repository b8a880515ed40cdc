// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/work.h"

#include <algorithm>
#include <cmath>

namespace transom {
namespace {

// Tokens that one token looks at on average.
double seen_tokens(const LayerStack& stack, double sequence, double context, bool skip_causal) {
  const auto seen = [&](double window) {
    const double all = context + sequence;
    const double causal = stack.causal && skip_causal ? context + sequence / 2 : all;
    return window > 0 ? std::min(window, causal) : causal;
  };
  const double local = stack.window > 0 ? stack.local_share : 0;
  return local * seen(stack.window) + (1 - local) * seen(0);
}

}  // namespace

double relative_kernels(const LayerStack& stack) {
  // A norm is five kernels where it is not fused, rotary embeddings six, the rest of attention and feed-forward ten.
  const auto kernels = [](double norms, bool gated, bool experts) {
    return 10 + 5 * norms + (gated ? 9 : 1) + (experts ? 30 : 0);
  };
  return kernels(stack.norms, stack.gated, stack.experts > 1) / kernels(2, true, false) * (stack.cross ? 1.5 : 1);
}

double tokens_of(const LayerStack& stack, double sequence) { return stack.tokens > 0 ? stack.tokens : sequence; }

Work layers_forward(const ModelShape& a, double samples, double sequence, double context, bool skip_causal) {
  Work work;
  double weighted_width = 0;
  for (const LayerStack& stack : a.stacks) {
    const double own = tokens_of(stack, sequence), tokens = samples * own;
    const double seen = seen_tokens(stack, own, context, skip_causal) + stack.cross_tokens;
    const double heads = stack.heads * stack.head_dim;
    const double weights = stack.attention_weights() + stack.active_feed_forward_weights();
    work.weight_flops += 2 * tokens * weights * stack.layers;
    work.attention_flops += 4 * tokens * seen * heads * stack.layers;
    const double active = stack.experts > 1
                              ? stack.experts_per_token * stack.expert_intermediate + stack.shared_intermediate
                              : stack.intermediate;
    double elements = (5 + 1.5 * stack.norms) * stack.hidden + 2 * heads + (stack.gated ? 4 : 3) * active;
    if (!stack.fused_attention)
      elements += (stack.causal ? 6 : 3) * stack.heads * seen;  // a causal mask is added and cast
    work.elements += tokens * elements * stack.layers;
    work.layers += stack.layers * relative_kernels(stack);
    weighted_width += stack.hidden * weights * stack.layers * own;
    work.rows = std::max(work.rows, tokens);
  }
  const double weight = work.weight_flops / 2 / std::max(1.0, samples);
  work.width = weight > 0 ? weighted_width / weight : 1;
  return work;
}

Work head_forward(const ModelShape& a, double positions) {
  Work work;
  if (a.head == Head::kCausalLanguage || a.head == Head::kMaskedLanguage) {
    work.weight_flops = 2 * positions * a.embedding * a.vocabulary;
    work.elements = 7 * positions * a.vocabulary;  // logits in 16 and 32 bits, softmax in 32, loss
  }
  work.width = std::max(1.0, a.embedding);
  work.rows = positions;
  return work;
}

Work convolutions_forward(const ModelShape& a, double samples) {
  Work work;
  work.weight_flops = a.convolution_flops * samples;
  work.elements = a.convolution_activations * samples * 2;  // the convolution, and its norm with activation
  work.width = 1e9;                                         // `convolution` says what is reached
  work.rows = 1e9;
  // A layer makes about 400,000 elements (ResNet-50 has 53 of 22 million).
  work.layers = a.is_convolutional() ? std::clamp(a.convolution_activations / 4e5, 10.0, 150.0) / 4 : 0;
  return work;
}

double weights_touched(const ModelShape& a, double tokens, bool all_experts) {
  if (a.is_convolutional()) return a.parameters;
  double total = 0;
  for (const LayerStack& stack : a.stacks) {
    double feed_forward = stack.feed_forward_weights();
    if (stack.experts > 1 && !all_experts) {
      const double touched = stack.experts * (1 - std::pow(1 - stack.experts_per_token / stack.experts, tokens));
      const double matrices = stack.gated ? 3 : 2;
      feed_forward = matrices * stack.hidden * (touched * stack.expert_intermediate + stack.shared_intermediate) +
                     stack.hidden * stack.experts;  // the router
    }
    total += (stack.attention_weights() + feed_forward) * stack.layers;
  }
  if (a.head == Head::kCausalLanguage) total += a.vocabulary * a.embedding;
  return total;
}

double cache_elements(const ModelShape& a, double tokens) {
  double total = 0;
  for (const LayerStack& stack : a.stacks) {
    if (!stack.causal) continue;
    const double local = stack.window > 0 ? stack.local_share : 0;
    const double kept = local * std::min(stack.window, tokens) + (1 - local) * tokens + stack.cross_tokens;
    total += 2 * stack.layers * stack.key_value_heads * stack.head_dim * kept;
  }
  return total;
}

}  // namespace transom
