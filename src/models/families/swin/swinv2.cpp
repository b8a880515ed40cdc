// SPDX-License-Identifier: Apache-2.0
// Swin V2 (Liu et al., 2022) with its heads.
#include <algorithm>

#include "models/families/swin/swin_classes.h"

namespace transom {
namespace {

constexpr const char* kSwinV2Name = "swinv2";  // of the body among the weights, too
constexpr int64_t kMostSwinSide = 64;          // of windows

// Windows are no larger than the grid of a picture of image_size, and are squares; where one is as high as the grid
// nothing is shifted.
SwinConfig swinv2_config(const Config& config) {
  refuse_unless(config, "use_absolute_embeddings", "false");  // which Transformers 5 fails with
  SwinConfig c(config);
  c.form.second = c.form.drops_both_paths = true;
  c.learned_windows = config.get_ints("pretrained_window_sizes", std::vector<int64_t>(c.depths.size(), 0));
  if (c.learned_windows.size() < c.depths.size())
    fail("{}: pretrained_window_sizes: expected one number for every stage, found {}", config.where(),
         c.learned_windows.size());
  const Extents grid = patch_grid(c.image_size, c.patch_size);
  for (size_t i = 0; i < c.depths.size(); ++i) {
    const int64_t rows = grid[0] >> i, side = std::min(rows, c.window_size),
                  shift = rows <= side ? 0 : c.window_size / 2;
    if (side < 1)
      fail("{}: image_size: a grid of {} rows of patches is too low for {} stages", config.where(), grid[0],
           c.depths.size());
    if (const int64_t learned = c.learned_windows[i]; learned < 0 || learned == 1 || learned > kMostSwinSide)
      fail("{}: pretrained_window_sizes: expected 0, or numbers from 2 to {}, found {}", config.where(), kMostSwinSide,
           learned);
    if (side > kMostSwinSide)
      fail("{}: window_size: expected windows of up to {}, found {}", config.where(), kMostSwinSide, side);
    c.windows.push_back({{side, side}, {shift, shift}});
  }
  return c;
}

class Swinv2Model : public SwinModel {
 public:
  Swinv2Model(const Config& config, const Scope& scope) : SwinModel(swinv2_config(config), scope) {}
};

class Swinv2ForImageClassification : public SwinForImageClassification {
 public:
  Swinv2ForImageClassification(const Config& config, const Scope& scope)
      : SwinForImageClassification(swinv2_config(config), scope, kSwinV2Name) {}
};

class Swinv2ForMaskedImageModeling : public SwinForMaskedImageModeling {
 public:
  Swinv2ForMaskedImageModeling(const Config& config, const Scope& scope)
      : SwinForMaskedImageModeling(swinv2_config(config), scope, kSwinV2Name) {}
};

Family swinv2_family() {
  return {
      .model_type = kSwinV2Name,
      .base_prefix = kSwinV2Name,
      .architectures = {{"Swinv2Model", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                         make_model<Swinv2Model>},
                        {"Swinv2ForImageClassification", image_classification_head({"classifier"}),
                         make_model<Swinv2ForImageClassification>},
                        {"Swinv2ForMaskedImageModeling", masked_image_head({"decoder", "swinv2.embeddings.mask_token"}),
                         make_model<Swinv2ForMaskedImageModeling>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "ViT", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kSwinv2Family{swinv2_family};

}  // namespace
}  // namespace transom
