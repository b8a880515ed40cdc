// SPDX-License-Identifier: Apache-2.0
// The stages of Swin (Liu et al., 2021): attention inside windows, which every second block shifts by half; patches are
// merged between stages. B batch, L = h w places of the grid, C channels, M window side, W windows of an image.
#pragma once

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "models/nn/attention/attention.h"
#include "models/nn/vision/windows.h"
#include "models/shared/vision_inputs.h"
#include "transom/layers.h"

namespace transom {

struct SwinStagesConfig {
  int64_t embed_dim, window_size;
  std::vector<int64_t> depths, num_heads;
  double mlp_ratio, hidden_dropout_prob, attention_probs_dropout_prob, drop_path_rate, layer_norm_eps, deviation;
  std::string hidden_act;
  bool qkv_bias;
  const char* heads_field = "num_heads";  // the field of num_heads in the configuration

  // `where` is that of the configuration.
  void check(const std::string& where) const {
    if (depths.empty() || depths.size() > 16 || num_heads.size() < depths.size())
      fail("{}: expected one number for every stage in depths and in {}", where, heads_field);
    for (size_t i = 0; i < depths.size(); ++i)
      if (num_heads[i] < 1 || (embed_dim << i) % num_heads[i] != 0)
        fail("{}: {}: the width {} of stage {} is not divisible by its {} heads", where, heads_field, embed_dim << i,
             i + 1, num_heads[i]);
  }
  Linear::Options new_weights(bool bias = true) const { return {.bias = bias, .deviation = deviation}; }
  int64_t width() const { return embed_dim << (depths.size() - 1); }  // of the last stage
};

// Turns axis round by `shift` places towards its begin; what falls off comes in at the end.
inline Tensor swin_rolled(const Tensor& x, int64_t axis, int64_t shift) {
  const int64_t extent = x.dim(axis), first = ((shift % extent) + extent) % extent;
  if (first == 0) return x;
  return concatenate({slice(x, axis, first, extent), slice(x, axis, 0, first)}, axis);
}

class SwinAttention {
 public:
  SwinAttention(const Scope& scope, const SwinStagesConfig& c, int64_t width, int64_t heads)
      : path_((scope / "self").path()),
        heads_(heads),
        window_(c.window_size),
        query_(scope / "self" / "query", width, width, c.new_weights(c.qkv_bias)),
        key_(scope / "self" / "key", width, width, c.new_weights(c.qkv_bias)),
        value_(scope / "self" / "value", width, width, c.new_weights(c.qkv_bias)),
        relative_position_bias_table_((scope / "self")
                                          .parameter("relative_position_bias_table",
                                                     {(2 * window_ - 1) * (2 * window_ - 1), heads}, Initial::zeros())),
        output_(scope / "output" / "dense", width, width, c.new_weights()),
        dropout_(c.attention_probs_dropout_prob) {
    (scope / "self").derived("relative_position_index");  // older checkpoints hold what follows from the window
  }

  // windows [B W, M M, C], mask [B W, 1, M M, M M] or empty
  Tensor operator()(const Tensor& windows, const Tensor& mask, ForwardContext& context) const {
    Tensor attended;
    {
      const ModuleScope module(path_);
      Tensor bias = relative_position_bias();
      if (mask.defined()) bias = bias + mask;
      attended = multi_head_attention(query_(windows, context), key_(windows, context), value_(windows, context),
                                      heads_, bias, dropout_, context);
    }
    return output_(attended, context);
  }

 private:
  Tensor relative_position_bias() const {  // [1, H, M M, M M]
    const int64_t M = window_;
    std::vector<int64_t> index;  // of the distance between two places
    for (int64_t from = 0; from < M * M; ++from)
      for (int64_t to = 0; to < M * M; ++to)
        index.push_back((from / M - to / M + M - 1) * (2 * M - 1) + from % M - to % M + M - 1);
    const Tensor bias = gather(relative_position_bias_table_->value, Tensor::from(index, {M * M, M * M}), 0);
    return unsqueeze(permute(bias, {2, 0, 1}), 0);
  }

  std::string path_;
  int64_t heads_, window_;
  Linear query_, key_, value_;
  std::shared_ptr<Parameter> relative_position_bias_table_;
  Linear output_;
  Dropout dropout_;
};

class SwinLayer {
 public:
  SwinLayer(const Scope& scope, const SwinStagesConfig& c, int64_t width, int64_t heads, double drop_path, bool shifted)
      : activation_(c.hidden_act),
        window_(c.window_size),
        shift_(shifted ? c.window_size / 2 : 0),
        layernorm_before_(scope / "layernorm_before", width, c.layer_norm_eps),
        attention_(scope / "attention", c, width, heads),
        layernorm_after_(scope / "layernorm_after", width, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", width,
                      static_cast<int64_t>(c.mlp_ratio * static_cast<double>(width)), c.new_weights()),
        output_(scope / "output" / "dense", static_cast<int64_t>(c.mlp_ratio * static_cast<double>(width)), width,
                c.new_weights()),
        dropout_(c.hidden_dropout_prob),
        drop_path_(drop_path) {}

  Tensor operator()(const Tensor& x, Extents grid, ForwardContext& context) const {  // [B, L, C] -> [B, L, C]
    const int64_t B = x.dim(0), C = x.dim(2), M = window_;
    if (std::min(grid[0], grid[1]) < M)
      fail("a grid of {}x{} patches is smaller than the window of {} (window_size): use larger images", grid[0],
           grid[1], M);
    // Where one window is all there is, nothing is shifted.
    const int64_t shift = std::min(grid[0], grid[1]) <= M ? 0 : shift_;
    const Extents padded{(grid[0] + M - 1) / M * M, (grid[1] + M - 1) / M * M};
    Tensor h = reshape(layernorm_before_(x, context), {B, grid[0], grid[1], C});
    h = pad(h, {0, 0, 0, 0}, {0, padded[0] - grid[0], padded[1] - grid[1], 0});
    h = swin_rolled(swin_rolled(h, 1, shift), 2, shift);
    h = dropout_(attention_(to_windows(h, M), shift > 0 ? mask_of_shift(padded, shift, B) : Tensor(), context),
                 context);
    h = from_windows(h, M, B, padded);
    h = swin_rolled(swin_rolled(h, 1, -shift), 2, -shift);
    h = slice(slice(h, 1, 0, grid[0]), 2, 0, grid[1]);
    const Tensor y = x + drop_path_(reshape(h, {B, grid[0] * grid[1], C}), context);
    return y + dropout_(output_(activation(activation_, intermediate_(layernorm_after_(y, context), context)), context),
                        context);
  }

 private:
  // After the shift a window may hold parts from opposite ends of the image: they do not see each other.
  Tensor mask_of_shift(Extents grid, int64_t shift, int64_t B) const {  // [B W, 1, M M, M M]
    const int64_t M = window_, W = (grid[0] / M) * (grid[1] / M);
    const auto region = [&](int64_t place, int64_t extent) {
      return (place >= extent - M) + (place >= extent - shift);
    };
    std::vector<float> regions;
    for (int64_t row = 0; row < grid[0]; ++row)
      for (int64_t column = 0; column < grid[1]; ++column)
        regions.push_back(static_cast<float>(3 * region(row, grid[0]) + region(column, grid[1])));
    const Tensor windows = reshape(to_windows(Tensor::from(regions, {1, grid[0], grid[1], 1}), M), {W, M * M});
    const Tensor same = cast(equal(unsqueeze(windows, 1), unsqueeze(windows, 2)), DType::kFloat32);
    const Tensor mask = (same - 1.0) * 100.0;  // -100 where they differ
    return reshape(broadcast_to(unsqueeze(mask, 0), {B, W, M * M, M * M}), {B * W, 1, M * M, M * M});
  }

  std::string activation_;
  int64_t window_, shift_;
  LayerNorm layernorm_before_;
  SwinAttention attention_;
  LayerNorm layernorm_after_;
  Linear intermediate_, output_;
  Dropout dropout_;
  DropPath drop_path_;
};

// Four neighbours become one place of twice the width.
class SwinPatchMerging {
 public:
  SwinPatchMerging(const Scope& scope, const SwinStagesConfig& c, int64_t width)
      : norm_(scope / "norm", 4 * width, 1e-5),
        reduction_(scope / "reduction", 4 * width, 2 * width, c.new_weights(false)) {}
  Tensor operator()(const Tensor& x, Extents grid,
                    ForwardContext& context) const {  // [B, h w, C] -> [B, ceil(h / 2) ceil(w / 2), 2 C]
    const int64_t B = x.dim(0), C = x.dim(2), h = (grid[0] + 1) / 2, w = (grid[1] + 1) / 2;
    const Tensor even =
        pad(reshape(x, {B, grid[0], grid[1], C}), {0, 0, 0, 0}, {0, 2 * h - grid[0], 2 * w - grid[1], 0});
    const Tensor split = permute(reshape(even, {B, h, 2, w, 2, C}), {0, 1, 3, 4, 2, 5});  // column before row
    return reduction_(norm_(reshape(split, {B, h * w, 4 * C}), context), context);
  }

 private:
  LayerNorm norm_;
  Linear reduction_;
};

class SwinStages {
 public:
  // `scope` is that of the list of stages.
  SwinStages(const Scope& scope, const SwinStagesConfig& c) {
    int64_t blocks = 0, block = 0;
    for (const int64_t depth : c.depths) blocks += depth;
    for (size_t i = 0; i < c.depths.size(); ++i) {
      const Scope stage = scope / static_cast<int64_t>(i);
      const int64_t width = c.embed_dim << i;
      std::vector<SwinLayer>& layers = stages_.emplace_back();
      for (int64_t k = 0; k < c.depths[i]; ++k, ++block) {
        const double place = static_cast<double>(block) / static_cast<double>(std::max<int64_t>(blocks - 1, 1));
        layers.emplace_back(stage / "blocks" / k, c, width, c.num_heads[i], c.drop_path_rate * place, k % 2 == 1);
      }
      if (i + 1 < c.depths.size()) downsample_.emplace_back(stage / "downsample", c, width);
    }
  }

  // x [B, L, C] of a grid -> x, then what is behind each stage and its merging.
  std::vector<Tensor> operator()(Tensor x, Extents grid, ForwardContext& context) const {
    std::vector<Tensor> states{x};
    for (size_t i = 0; i < stages_.size(); ++i) {
      for (const SwinLayer& layer : stages_[i])
        x = context.gradient_checkpointing && context.training
                ? checkpoint([&](const std::vector<Tensor>& in) { return layer(in[0], grid, context); }, {x})
                : layer(x, grid, context);
      if (i < downsample_.size()) {
        x = downsample_[i](x, grid, context);
        grid = {(grid[0] + 1) / 2, (grid[1] + 1) / 2};
      }
      states.push_back(x);
    }
    return states;
  }

 private:
  std::vector<std::vector<SwinLayer>> stages_;
  std::vector<SwinPatchMerging> downsample_;
};

}  // namespace transom
