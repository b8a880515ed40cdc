// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., "RoFormer", 2021): pairs of numbers of each head turn by an angle that grows
// with the position, each pair at a frequency of its own; and the ways of stretching it to longer texts.
// Letters: B batch, T time, H heads, d head size.
#pragma once

#include <optional>
#include <vector>

#include "transom/ops.h"

namespace transom {

struct RotaryOptions {
  enum class Kind {
    kDefault,
    kLinear,    // positions are divided by `factor` (Chen et al., 2023)
    kDynamic,   // the base grows with the text once it is longer than `max_positions` (NTK-aware scaling)
    kYarn,      // slow pairs are interpolated, fast ones are not (Peng et al., 2023)
    kLlama3,    // likewise, by wave length
    kLongrope,  // a factor for each pair, of two sets, by the length of the text (Ding et al., 2024)
  };
  Kind kind = Kind::kDefault;
  int64_t width = 0;  // how many numbers of each head turn
  double theta = 10000, factor = 1;
  double max_positions = 0, original_max_positions = 0;
  std::optional<double> attention_factor;  // of cosine and sine; without it what the paper says
  double beta_fast = 32, beta_slow = 1, mscale = 0, mscale_all_dim = 0;  // yarn
  bool truncate = true;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  std::vector<double> short_factor, long_factor;     // longrope
  bool operator==(const RotaryOptions&) const = default;
};

struct RotaryAngles {
  Tensor cosine, sine;  // [B or 1, T, 1, pairs]
};

class RotaryEmbedding {
 public:
  explicit RotaryEmbedding(const RotaryOptions& options);
  RotaryAngles operator()(const Tensor& position_ids) const;  // [B or 1, T]

 private:
  Tensor frequencies(const Tensor& position_ids) const;
  RotaryOptions options_;
  double attention_factor_ = 1;
  Tensor frequencies_, long_frequencies_;  // f32 [pairs]
};

// x [B, T, H, d]: number i turns with number i + pairs; what lies behind the pairs stays.
Tensor rotate(const Tensor& x, const RotaryAngles& angles);

}  // namespace transom
