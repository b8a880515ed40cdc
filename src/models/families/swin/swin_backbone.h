// SPDX-License-Identifier: Apache-2.0
// Swin (Liu et al., 2021) as the backbone of segmenters: what its stages give before they merge, normed. Windows keep
// their extents where the grid is smaller, and are shifted there too, as Transformers has it.
#pragma once

#include <vector>

#include "models/families/swin/swin_body.h"

namespace transom {

class SwinBackbone {
 public:
  // `stages`: whose maps are given, rising; 0 is what the patches are.
  SwinBackbone(const Config& config, const Scope& scope, const std::vector<int64_t>& stages)
      : c_(config_of(config)), stages_(stages), body_(scope, c_, false, false) {
    for (const int64_t stage : stages_)
      norms_.emplace_back(scope / "hidden_states_norms" / (stage == 0 ? "stem" : "stage" + std::to_string(stage)),
                          width_of_stage(stage), 1e-5);
    // A norm of the last stage, which newer checkpoints hold and nothing reads.
    for (const char* name : {"weight", "bias"}) (scope / "swin" / "layernorm").derived(name);
  }
  // [B, channels, H, W] -> the maps, each [B, C, h, w].
  std::vector<Tensor> operator()(const Tensor& image, ForwardContext& context) const {
    const Extents size = size_of(image), patch = c_.patch_size;
    Extents grid{(size[0] + patch[0] - 1) / patch[0], (size[1] + patch[1] - 1) / patch[1]};
    const std::vector<Tensor> states = body_({{"pixel_values", image}}, context).hidden_states;
    std::vector<Tensor> maps;
    for (size_t stage = 0; stage < states.size(); ++stage) {
      if (stage > 1) grid = SwinStages::merged(grid);
      const auto at = std::find(stages_.begin(), stages_.end(), static_cast<int64_t>(stage));
      if (at == stages_.end()) continue;
      const Tensor x = norms_[static_cast<size_t>(at - stages_.begin())](states[stage], context);
      maps.push_back(permute(reshape(x, {x.dim(0), grid[0], grid[1], x.dim(2)}), {0, 3, 1, 2}));
    }
    return maps;
  }
  int64_t num_channels() const { return c_.num_channels; }
  int64_t width_of_stage(int64_t stage) const {
    return c_.width_of(static_cast<size_t>(std::max<int64_t>(stage - 1, 0)));
  }

 private:
  static SwinConfig config_of(const Config& config) {
    SwinConfig c(config);
    c.form.gives_unmerged = true;
    c.windows.assign(c.depths.size(), {{c.window_size, c.window_size}, {c.window_size / 2, c.window_size / 2}});
    return c;
  }

  SwinConfig c_;
  std::vector<int64_t> stages_;
  SwinBody body_;
  std::vector<LayerNorm> norms_;
};

}  // namespace transom
