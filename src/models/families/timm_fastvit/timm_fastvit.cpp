// SPDX-License-Identifier: Apache-2.0
// timm's FastViT: stages of blocks that mix tokens by convolutions, the last ones perhaps by attention.
#include <algorithm>
#include <optional>

#include "models/families/timm_fastvit/fastvit_blocks.h"
#include "models/families/timm_wrapper/timm_network.h"

namespace transom {
namespace {

constexpr int64_t kPlacesWindow = 7;

class FastVitStage {
 public:
  FastVitStage(const Scope& scope, const FastVitDesign& d, const FastVitStageDesign& stage, int64_t in,
               double drop_path, double step)
      : fused_(d.fused) {
    if (stage.shrinks) downsample_.emplace(scope / "downsample", d, stage, in);
    if (stage.has_places)
      places_.emplace(scope / "pos_emb" / (fused_ ? "reparam_conv" : "pos_enc"), stage.width, stage.width,
                      Axes{kPlacesWindow, kPlacesWindow}, Convolution::same(kPlacesWindow, 1, stage.width, true));
    for (int64_t i = 0; i < stage.depth; ++i)
      blocks_.emplace_back(scope / "blocks" / i, d, stage, drop_path + step * static_cast<double>(i));
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {
    if (downsample_) x = (*downsample_)(x, context);
    if (places_) x = fused_ ? (*places_)(x, context) : (*places_)(x, context) + x;
    for (const FastVitBlock& block : blocks_) x = block(x, context);
    return x;
  }

 private:
  bool fused_;
  std::optional<FastVitShrinking> downsample_;
  std::optional<Convolution> places_;
  std::vector<FastVitBlock> blocks_;
};

class FastVitNetwork : public TimmNetwork {
 public:
  FastVitNetwork(const Config& config, const Scope& scope) : FastVitNetwork(TimmArguments(config), scope) {}
  FastVitNetwork(const TimmArguments& timm, const Scope& scope) : timm_(timm), d_(timm) {
    const int64_t width = d_.stages[0].width;
    FastVitMobileOne::Options stem{.window = 3, .stride = 2, .fused = d_.fused, .has_pixels = d_.stem_scales};
    stem_.emplace_back(scope / "stem" / 0, timm.in_chans, width, stem);
    stem.groups = width;
    stem_.emplace_back(scope / "stem" / 1, width, width, stem);
    stem_.emplace_back(scope / "stem" / 2, width, width,
                       FastVitMobileOne::Options{.window = 1, .fused = d_.fused, .has_pixels = d_.stem_scales});
    int64_t blocks = 0, block = 0, in = width;
    for (const FastVitStageDesign& stage : d_.stages) blocks += stage.depth;
    const double step = timm.drop_path_rate / static_cast<double>(std::max<int64_t>(blocks - 1, 1));
    for (size_t i = 0; i < d_.stages.size(); ++i) {
      stages_.emplace_back(scope / "stages" / static_cast<int64_t>(i), d_, d_.stages[i], in,
                           step * static_cast<double>(block), step);
      in = d_.stages[i].width;
      block += d_.stages[i].depth;
    }
    final_.emplace(scope / "final_conv", in, d_.features(),
                   FastVitMobileOne::Options{.window = 3, .groups = in, .fused = d_.fused, .squeezes = true});
  }

  Facts facts() const override {
    return {timm_.in_chans, timm_.num_classes, d_.features() * timm_pooled_parts(d_.global_pool), "head.fc"};
  }

  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const override {
    Tensor x = image;
    for (const FastVitMobileOne& block : stem_) x = block(x, context);
    std::vector<Tensor> states;
    for (const FastVitStage& stage : stages_) states.push_back(x = stage(x, context));
    x = (*final_)(x, context);
    return {x, Dropout(timm_.drop_rate)(timm_pooled(x, d_.global_pool), context), states};
  }

 private:
  TimmArguments timm_;
  FastVitDesign d_;
  std::vector<FastVitMobileOne> stem_;
  std::vector<FastVitStage> stages_;
  std::optional<FastVitMobileOne> final_;
};

const RegisterTimm kTimmFastVit({
    .examples = "fastvit_t8, fastvit_sa12, fastvit_mci0",
    .knows = FastVitDesign::is_name,
    .make = [](const Config& config, const Scope& scope) -> std::unique_ptr<TimmNetwork> {
      return std::make_unique<FastVitNetwork>(config, scope);
    },
});

}  // namespace
}  // namespace transom
