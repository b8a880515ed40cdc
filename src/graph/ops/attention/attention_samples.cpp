// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/attention/attention_samples.h"

namespace transom {

Attributes attention_attributes(const AttentionOptions& options, bool biased, double dropout) {
  return {{"scale", options.scale},
          {"causal", static_cast<int64_t>(options.causal)},
          {"sliding_window", options.sliding_window},
          {"soft_cap", options.soft_cap},
          {"dropout", dropout},
          {"biased", static_cast<int64_t>(biased)}};
}

Sample sample_of_attention(const AttentionSample& s, const std::vector<Type>& more, bool gradient,
                           int64_t index_limit) {
  std::vector<Type> inputs = {{s.dtype, s.q}, {s.dtype, s.k}, {s.dtype, {s.k[0], s.k[1], s.k[2], s.e}}};
  if (!s.bias.empty()) inputs.push_back({DType::kFloat32, s.bias});
  if (s.dropout > 0) inputs.push_back({DType::kInt64, {2}});
  inputs.insert(inputs.end(), more.begin(), more.end());
  if (gradient) inputs.push_back({s.dtype, {s.q[0], s.q[1], s.q[2], s.e}});
  return {inputs, attention_attributes(s.options, !s.bias.empty(), s.dropout), -1, 1, index_limit};
}

}  // namespace transom
