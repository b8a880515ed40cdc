// SPDX-License-Identifier: Apache-2.0
#include "models/families/dpt/dpt_neck.h"

#include "base/error.h"
#include "base/json/json.h"
#include "models/family.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kMostFactor = 1024, kMostWidth = 1 << 20;

int64_t whole_factor(double factor) {
  if (!(factor >= 1 && factor <= static_cast<double>(kMostFactor)))
    fail("config.json: reassemble_factors: expected 1/{} to {}", kMostFactor, kMostFactor);
  return static_cast<int64_t>(factor);
}

}  // namespace

Convolution::Options dpt_window(double deviation, int64_t extent, bool bias) {
  Convolution::Options options = Convolution::same(extent, 1, 1, bias);
  options.deviation = deviation;
  return options;
}

DPTNeckShape dpt_neck_shape(const Config& config, const std::vector<int64_t>& widths, int64_t fused) {
  DPTNeckShape shape{.states = 0,
                     .widths = config.get_ints("neck_hidden_sizes", widths),
                     .factors = {},
                     .fused = positive(config, "fusion_hidden_size", fused, kMostWidth),
                     .deviation = config.get_float("initializer_range", 0.02)};
  const Json factors = parse_json(config.get_json("reassemble_factors"), config.where());
  for (const Json& factor : factors.is_null() ? Json{4, 2, 1, 0.5} : factors) {
    if (!factor.is_number()) fail("{}: reassemble_factors: expected numbers", config.where());
    shape.factors.push_back(factor.get<double>());
  }
  for (const int64_t width : shape.widths)
    if (width < 1 || width > kMostWidth)
      fail("{}: neck_hidden_sizes: expected numbers from 1 to {}, found {}", config.where(), kMostWidth, width);
  if (shape.factors.size() != shape.widths.size() || shape.widths.empty())
    fail("{}: expected as many reassemble_factors as neck_hidden_sizes, {}, found {}", config.where(),
         shape.widths.size(), shape.factors.size());
  return shape;
}

size_t dpt_head_map(const Config& config, size_t maps) {
  const auto stages = static_cast<int64_t>(maps);
  const int64_t chosen = config.get_int("head_in_index", -1), index = chosen < 0 ? chosen + stages : chosen;
  if (index < 0 || index >= stages)
    fail("{}: head_in_index: expected one of {} maps, found {}", config.where(), stages, chosen);
  return static_cast<size_t>(index);
}

// States of patches as a map [B, channels, factor h, factor w].
class DPTReassemble {
 public:
  // `layers` and `readouts` are where Transformers has the parts of this map.
  DPTReassemble(const Scope& layers, const Scope& readouts, const DPTNeckShape& s, int64_t channels, double factor)
      : readout_(s.readout),
        activation_(s.activation),
        projection_(layers / "projection", s.states, channels, {1, 1}, dpt_window(s.deviation, 1)) {
    if (factor > 1) larger_.emplace(layers / "resize", channels, channels, whole_factor(factor), s.deviation);
    else if (factor < 1)
      smaller_.emplace(layers / "resize", channels, channels, Axes{3, 3},
                       Convolution::Options{.strides = {whole_factor(1 / factor), whole_factor(1 / factor)},
                                            .low = {1, 1},
                                            .high = {1, 1},
                                            .deviation = s.deviation});
    if (readout_ == DPTReadout::kProject)
      read_.emplace(readouts / 0, 2 * s.states, s.states, Linear::Options{.deviation = s.deviation});
  }
  Tensor operator()(const Tensor& states, Extents grid, ForwardContext& context) const {
    Tensor patches = slice(states, 1, 1, states.dim(1));
    const Tensor first = slice(states, 1, 0, 1);
    if (readout_ == DPTReadout::kAdd) patches = patches + first;
    if (read_)
      patches =
          activation(activation_, (*read_)(concatenate({patches, broadcast_to(first, patches.shape())}, 2), context));
    const Tensor map = reshape(permute(patches, {0, 2, 1}), {patches.dim(0), patches.dim(2), grid[0], grid[1]});
    const Tensor y = projection_(map, context);
    return larger_ ? (*larger_)(y, context) : smaller_ ? (*smaller_)(y, context) : y;
  }

 private:
  DPTReadout readout_;
  std::string activation_;
  Convolution projection_;
  std::optional<PixelEnlargement> larger_;
  std::optional<Convolution> smaller_;
  std::optional<Linear> read_;
};

namespace {

class DPTResidual {
 public:
  DPTResidual(const Scope& scope, const DPTNeckShape& s)
      : convolution1_(scope / "convolution1", s.fused, s.fused, {3, 3}, dpt_window(s.deviation, 3, s.bias)),
        convolution2_(scope / "convolution2", s.fused, s.fused, {3, 3}, dpt_window(s.deviation, 3, s.bias)) {
    if (!s.norms) return;
    norm1_.emplace(scope / "batch_norm1", s.fused);
    norm2_.emplace(scope / "batch_norm2", s.fused);
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor inner = convolution1_(relu(x), context);
    const Tensor y = convolution2_(relu(norm1_ ? (*norm1_)(inner, context) : inner), context);
    return (norm2_ ? (*norm2_)(y, context) : y) + x;
  }

 private:
  Convolution convolution1_, convolution2_;
  std::optional<BatchNorm> norm1_, norm2_;
};

}  // namespace

// What is fused so far with the next finer map, at another size.
class DPTFusion {
 public:
  DPTFusion(const Scope& scope, const DPTNeckShape& s)
      : projection_(scope / "projection", s.fused, s.fused, {1, 1}, dpt_window(s.deviation, 1)),
        residual_layer1_(scope / "residual_layer1", s),
        residual_layer2_(scope / "residual_layer2", s) {}
  Tensor operator()(Tensor x, const Tensor& finer, Extents size, ForwardContext& context) const {
    const Computing& computing = context.computing;
    if (finer.defined()) {
      const bool fits = finer.shape() == x.shape();
      x = x + residual_layer1_(fits ? finer : resize_bilinear(finer, x.dim(2), x.dim(3), false, computing), context);
    }
    return projection_(resize_bilinear(residual_layer2_(x, context), size[0], size[1], true, computing), context);
  }

 private:
  Convolution projection_;
  DPTResidual residual_layer1_, residual_layer2_;
};

DPTNeck::DPTNeck(const Scope& scope, const DPTNeckShape& s) : doubles_(s.doubles) {
  const Scope stage = scope / "reassemble_stage";
  for (size_t i = 0; i < s.widths.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    reassemble_.emplace_back(stage / "layers" / number, stage / "readout_projects" / number, s, s.widths[i],
                             s.factors[i]);
    convs_.emplace_back(scope / "convs" / number, s.widths[i], s.fused, Axes{3, 3}, dpt_window(s.deviation, 3, false));
    fusion_.emplace_back(scope / "fusion_stage" / "layers" / number, s);
  }
}

DPTNeck::~DPTNeck() = default;
DPTNeck::DPTNeck(DPTNeck&&) noexcept = default;

std::vector<Tensor> DPTNeck::operator()(const std::vector<Tensor>& states, Extents grid,
                                        ForwardContext& context) const {
  std::vector<Tensor> maps;
  for (size_t i = 0; i < states.size(); ++i)
    maps.push_back(convs_[i](reassemble_[i](states[i], grid, context), context));
  std::vector<Tensor> fused;
  for (size_t i = 0; i < maps.size(); ++i) {
    const Tensor& map = maps[maps.size() - 1 - i];
    const Tensor& before = i == 0 ? map : fused.back();
    const Extents size = doubles_ || i + 1 == maps.size() ? Extents{2 * before.dim(2), 2 * before.dim(3)}
                                                          : size_of(maps[maps.size() - 2 - i]);
    fused.push_back(fusion_[i](before, i == 0 ? Tensor() : map, size, context));
  }
  return fused;
}

}  // namespace transom
