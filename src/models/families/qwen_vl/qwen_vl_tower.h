// SPDX-License-Identifier: Apache-2.0
// The towers of Qwen2-VL (Wang et al., 2024) and Qwen2.5-VL (Bai et al., 2025), which see pictures of any size: patches
// turn by their row and column, blocks of merge x merge become one row for the decoder. The second has RMS norms, gated
// layers, and windows in most blocks. n patches of one picture, m merge, D width of the tower.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/nn/attention/rotary.h"
#include "transom/config.h"
#include "transom/layers.h"

namespace transom {

struct QwenVisionConfig {
  int64_t depth, width, heads, out, feed_forward, channels, patch, frames, merge;
  std::string activation;
  double theta, deviation;
  bool gated = false;                    // Qwen2.5-VL's layers and norms
  std::string up = "fc1", down = "fc2";  // modules of layers that are not gated
  int64_t window = 0;                    // in merged rows, on both sides; 0: all patches see all
  std::vector<int64_t> see_all;          // blocks without windows
  int64_t numbers() const { return channels * frames * patch * patch; }  // of a patch
};
QwenVisionConfig qwen2_vision_config(const Config& config);
QwenVisionConfig qwen2_5_vision_config(const Config& config);
// What all of them say by the same names, and one of their numbers above 0.
QwenVisionConfig qwen_vision_common(const Config& config);
int64_t qwen_vision_number(const Config& config, const char* field, int64_t otherwise, int64_t most = 1 << 20);
void check_qwen_heads(const QwenVisionConfig& c, const Config& config);

class QwenVisionNorm {
 public:
  QwenVisionNorm(const Scope& scope, const QwenVisionConfig& c);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;

 private:
  std::optional<LayerNorm> layer_;
  std::optional<RmsNorm> rms_;
};

class QwenVisionBlock {
 public:
  QwenVisionBlock(const Scope& scope, const QwenVisionConfig& c);
  // [1, n, D]; `mask` additive [1, 1, n, n] or empty
  Tensor operator()(const Tensor& x, const RotaryAngles& angles, const Tensor& mask, ForwardContext& context) const;

 private:
  Tensor attended(const Tensor& x, const RotaryAngles& angles, const Tensor& mask, ForwardContext& context) const;
  Tensor fed_forward(const Tensor& x, ForwardContext& context) const;

  std::string path_;
  int64_t heads_;
  std::string activation_;
  QwenVisionNorm norm1_, norm2_;
  Linear qkv_, proj_;
  std::vector<Linear> layers_;  // of the feed-forward part: up and down, or gate, up and down
};

// Where the patches of a picture are, block by block; windows are numbered.
struct QwenPatchPlaces {
  std::vector<int64_t> rows, columns, windows;
};
QwenPatchPlaces qwen_patch_places(const QwenVisionConfig& c, int64_t height, int64_t width);
// Half of a head's pairs turn by the row, half by the column.
RotaryAngles qwen_vision_angles(const RotaryEmbedding& rotary, const QwenPatchPlaces& places);

// A tower of any of these models.
class QwenTower {
 public:
  explicit QwenTower(const QwenVisionConfig& c) : c_(c) {}
  virtual ~QwenTower() = default;
  // The patches of one picture, block by block [n, numbers], which lie as height x width -> [n / m^2, out], or wider
  // rows where they have what is added behind blocks of the decoder.
  virtual Tensor operator()(const Tensor& patches, int64_t height, int64_t width, ForwardContext& context) const = 0;
  virtual int64_t behind_blocks() const { return 0; }
  const QwenVisionConfig& config() const { return c_; }

 protected:
  QwenVisionConfig c_;
};

class QwenVisionTower : public QwenTower {
 public:
  QwenVisionTower(const Scope& scope, const QwenVisionConfig& c);
  Tensor operator()(const Tensor& patches, int64_t height, int64_t width, ForwardContext& context) const override;

 private:
  std::shared_ptr<Parameter> patch_weight_;
  std::vector<QwenVisionBlock> blocks_;
  QwenVisionNorm ln_q_;
  Linear inner_, outer_;
  RotaryEmbedding rotary_;
};

}  // namespace transom
