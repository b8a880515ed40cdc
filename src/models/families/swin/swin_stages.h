// SPDX-License-Identifier: Apache-2.0
// The stages of Swin (Liu et al., 2021): attention inside windows, which every second block shifts by half; patches are
// merged between stages. B batch, L = h w places of the grid, C channels, M the sides of a window, W windows of an
// image.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/families/swin/swin_cosine.h"
#include "models/nn/attention/attention.h"
#include "models/nn/vision/windows.h"
#include "models/shared/vision_inputs.h"
#include "transom/layers.h"

namespace transom {

// What checkpoints name differently, and what their libraries do differently.
struct SwinForm {
  std::string norm_before = "layernorm_before", norm_after = "layernorm_after";
  std::string attention = "attention.self", attention_output = "attention.output.dense";
  std::string widening = "intermediate.dense", narrowing = "output.dense";
  std::string query_key_value;    // of the one matrix; empty: there are three
  bool merges_first = false;      // a merging is the begin of the stage behind it, and not the end of the one before
  bool rolls_first = false;       // grids are padded after they are shifted
  bool drops_both_paths = false;  // of a block; else the path of its attention alone
  bool drops_inside = false;      // of the feed-forward layer too
  bool gives_unmerged = false;    // states of stages are those before their merging
  bool second = false;  // Swin V2: cosines as scores, norms behind what they norm, dropout of attention behind it too
};

// Of a stage: the sides of its windows, and by how much every second block shifts them.
struct SwinWindows {
  Extents sides, shift;
};

struct SwinStagesConfig {
  int64_t embed_dim, window_size;
  std::vector<int64_t> depths, num_heads;
  double mlp_ratio, hidden_dropout_prob, attention_probs_dropout_prob, drop_path_rate, layer_norm_eps, deviation;
  std::string hidden_act;
  bool qkv_bias;
  const char* heads_field = "num_heads";  // the field of num_heads in the configuration
  SwinForm form = {};
  std::vector<SwinWindows> windows = {};      // of each stage; empty: of window_size, whatever the grid
  std::vector<int64_t> learned_windows = {};  // of Swin V2: sides of each stage with which weights were learned, or 0

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
  int64_t width_of(size_t stage) const { return embed_dim << stage; }
  int64_t width() const { return width_of(depths.size() - 1); }  // of the last stage
  int64_t inner_width(size_t stage) const {
    return static_cast<int64_t>(mlp_ratio * static_cast<double>(width_of(stage)));
  }
};

// Turns axis round by `shift` places towards its begin; what falls off comes in at the end.
inline Tensor swin_rolled(const Tensor& x, int64_t axis, int64_t shift) {
  const int64_t extent = x.dim(axis), first = ((shift % extent) + extent) % extent;
  if (first == 0) return x;
  return concatenate({slice(x, axis, first, extent), slice(x, axis, 0, first)}, axis);
}

class SwinAttention {
 public:
  SwinAttention(const Scope& block, const SwinStagesConfig& c, int64_t width, int64_t heads, Extents window)
      : path_((block / c.form.attention).path()),
        heads_(heads),
        window_(window),
        projections_(projections_of(block / c.form.attention, c, width)),
        relative_position_bias_table_((block / c.form.attention)
                                          .parameter("relative_position_bias_table",
                                                     {(2 * window[0] - 1) * (2 * window[1] - 1), heads},
                                                     Initial::zeros())),
        output_(block / c.form.attention_output, width, width, c.new_weights()),
        dropout_(c.attention_probs_dropout_prob) {
    // Older checkpoints hold what follows from the window.
    (block / c.form.attention).derived("relative_position_index");
  }

  // windows [B W, M M, C], mask [B W, 1, M M, M M] or empty
  Tensor operator()(const Tensor& windows, const Tensor& mask, ForwardContext& context) const {
    Tensor attended;
    {
      const ModuleScope module(path_);
      Tensor bias = relative_position_bias();
      if (mask.defined()) bias = bias + mask;
      const std::array<Tensor, 3> parts = projected(windows, context);
      attended = multi_head_attention(parts[0], parts[1], parts[2], heads_, bias, dropout_, context);
    }
    return output_(attended, context);
  }

 private:
  static std::vector<Linear> projections_of(const Scope& scope, const SwinStagesConfig& c, int64_t width) {
    if (!c.form.query_key_value.empty())
      return {Linear(scope / c.form.query_key_value, width, 3 * width, c.new_weights(c.qkv_bias))};
    std::vector<Linear> three;
    for (const char* name : {"query", "key", "value"})
      three.emplace_back(scope / name, width, width, c.new_weights(c.qkv_bias));
    return three;
  }
  std::array<Tensor, 3> projected(const Tensor& windows, ForwardContext& context) const {
    if (projections_.size() > 1)
      return {projections_[0](windows, context), projections_[1](windows, context), projections_[2](windows, context)};
    const Tensor all = projections_[0](windows, context);
    const int64_t C = windows.dim(2);
    return {slice(all, 2, 0, C), slice(all, 2, C, 2 * C), slice(all, 2, 2 * C, 3 * C)};
  }
  Tensor relative_position_bias() const {  // [1, H, M M, M M]
    const Tensor bias = gather(relative_position_bias_table_->value, swin_distances(window_[0], window_[1]), 0);
    return unsqueeze(permute(bias, {2, 0, 1}), 0);
  }

  std::string path_;
  int64_t heads_;
  Extents window_;
  std::vector<Linear> projections_;  // queries, keys and values, or one of all
  std::shared_ptr<Parameter> relative_position_bias_table_;
  Linear output_;
  Dropout dropout_;
};

class SwinLayer {
 public:
  SwinLayer(const Scope& scope, const SwinStagesConfig& c, size_t stage, double drop_path, bool shifted)
      : activation_(c.hidden_act),
        any_grid_(c.windows.empty()),
        windows_(any_grid_ ? SwinWindows{{c.window_size, c.window_size}, {c.window_size / 2, c.window_size / 2}}
                           : c.windows[stage]),
        rolls_first_(c.form.rolls_first),
        second_(c.form.second),
        layernorm_before_(scope / c.form.norm_before, c.width_of(stage), c.layer_norm_eps),
        layernorm_after_(scope / c.form.norm_after, c.width_of(stage), c.layer_norm_eps),
        intermediate_(scope / c.form.widening, c.width_of(stage), c.inner_width(stage), c.new_weights()),
        output_(scope / c.form.narrowing, c.inner_width(stage), c.width_of(stage), c.new_weights()),
        attention_dropout_(second_ ? c.attention_probs_dropout_prob : c.hidden_dropout_prob),
        dropout_(c.hidden_dropout_prob),
        inner_dropout_(c.form.drops_inside ? c.hidden_dropout_prob : 0),
        drop_path_(drop_path),
        second_drop_path_(c.form.drops_both_paths ? drop_path : 0) {
    if (!shifted) windows_.shift = {0, 0};
    if (second_)
      cosine_.emplace(scope / c.form.attention, scope / c.form.attention_output,
                      SwinCosineAttention::Form{.width = c.width_of(stage),
                                                .heads = c.num_heads[stage],
                                                .side = windows_.sides[0],
                                                .learned_side = c.learned_windows[stage],
                                                .bias = c.qkv_bias,
                                                .dropout = c.attention_probs_dropout_prob,
                                                .deviation = c.deviation});
    else attention_.emplace(scope, c, c.width_of(stage), c.num_heads[stage], windows_.sides);
  }

  Tensor operator()(const Tensor& x, Extents grid, ForwardContext& context) const {  // [B, L, C] -> [B, L, C]
    const int64_t B = x.dim(0), C = x.dim(2);
    const Extents M = windows_.sides, shift = shift_of(grid);
    const Extents padded{(grid[0] + M[0] - 1) / M[0] * M[0], (grid[1] + M[1] - 1) / M[1] * M[1]};
    const auto pad_up = [&](const Tensor& map) {
      return pad(map, {0, 0, 0, 0}, {0, padded[0] - grid[0], padded[1] - grid[1], 0});
    };
    const auto cut = [&](const Tensor& map) { return slice(slice(map, 1, 0, grid[0]), 2, 0, grid[1]); };
    const auto roll = [](const Tensor& map, int64_t rows, int64_t columns) {
      return swin_rolled(swin_rolled(map, 1, rows), 2, columns);
    };
    Tensor h = reshape(second_ ? x : layernorm_before_(x, context), {B, grid[0], grid[1], C});
    h = rolls_first_ ? pad_up(roll(h, shift[0], shift[1])) : roll(pad_up(h), shift[0], shift[1]);
    const bool shifts = shift[0] > 0 || shift[1] > 0;
    const Tensor mask = shifts ? mask_of_shift(padded, shift, B) : Tensor(), windows = to_windows(h, M);
    h = attention_dropout_(second_ ? (*cosine_)(windows, mask, context) : (*attention_)(windows, mask, context),
                           context);
    h = from_windows(h, M, B, padded);
    h = rolls_first_ ? roll(cut(h), -shift[0], -shift[1]) : cut(roll(h, -shift[0], -shift[1]));
    h = reshape(h, {B, grid[0] * grid[1], C});
    const Tensor y = x + drop_path_(second_ ? layernorm_before_(h, context) : h, context);
    const Tensor inner = activation(activation_, intermediate_(second_ ? y : layernorm_after_(y, context), context));
    const Tensor z = dropout_(output_(inner_dropout_(inner, context), context), context);
    return y + second_drop_path_(second_ ? layernorm_after_(z, context) : z, context);
  }

 private:
  Extents shift_of(Extents grid) const {
    const Extents M = windows_.sides;
    if (!any_grid_) return windows_.shift;
    if (std::min(grid[0], grid[1]) < M[0])
      fail("a grid of {}x{} patches is smaller than the window of {} (window_size): use larger images", grid[0],
           grid[1], M[0]);
    // Where one window is all there is, nothing is shifted.
    return std::min(grid[0], grid[1]) <= M[0] ? Extents{0, 0} : windows_.shift;
  }
  // After the shift a window may hold parts from opposite ends of the image: they do not see each other.
  Tensor mask_of_shift(Extents grid, Extents shift, int64_t B) const {  // [B W, 1, M M, M M]
    const Extents M = windows_.sides;
    const int64_t W = (grid[0] / M[0]) * (grid[1] / M[1]), places = M[0] * M[1];
    const auto region = [&](int64_t place, size_t axis) {
      if (shift[axis] == 0) return 0;
      return (place >= grid[axis] - M[axis]) + (place >= grid[axis] - shift[axis]);
    };
    std::vector<float> regions;
    for (int64_t row = 0; row < grid[0]; ++row)
      for (int64_t column = 0; column < grid[1]; ++column)
        regions.push_back(static_cast<float>(3 * region(row, 0) + region(column, 1)));
    const Tensor windows = reshape(to_windows(Tensor::from(regions, {1, grid[0], grid[1], 1}), M), {W, places});
    const Tensor same = cast(equal(unsqueeze(windows, 1), unsqueeze(windows, 2)), DType::kFloat32);
    const Tensor mask = (same - 1.0) * (second_ ? 200.0 : 100.0);  // -100 where they differ, which V2 adds twice
    return reshape(broadcast_to(unsqueeze(mask, 0), {B, W, places, places}), {B * W, 1, places, places});
  }

  std::string activation_;
  bool any_grid_;
  SwinWindows windows_;
  bool rolls_first_, second_;
  LayerNorm layernorm_before_;
  std::optional<SwinAttention> attention_;
  std::optional<SwinCosineAttention> cosine_;
  LayerNorm layernorm_after_;
  Linear intermediate_, output_;
  Dropout attention_dropout_, dropout_, inner_dropout_;
  DropPath drop_path_, second_drop_path_;
};

// Four neighbours become one place of twice the width.
class SwinPatchMerging {
 public:
  SwinPatchMerging(const Scope& scope, const SwinStagesConfig& c, int64_t width)
      : norms_after_(c.form.second),
        norm_(scope / "norm", norms_after_ ? 2 * width : 4 * width, 1e-5),
        reduction_(scope / "reduction", 4 * width, 2 * width, c.new_weights(false)) {}
  Tensor operator()(const Tensor& x, Extents grid,
                    ForwardContext& context) const {  // [B, h w, C] -> [B, ceil(h / 2) ceil(w / 2), 2 C]
    const int64_t B = x.dim(0), C = x.dim(2), h = (grid[0] + 1) / 2, w = (grid[1] + 1) / 2;
    const Tensor even =
        pad(reshape(x, {B, grid[0], grid[1], C}), {0, 0, 0, 0}, {0, 2 * h - grid[0], 2 * w - grid[1], 0});
    const Tensor split = permute(reshape(even, {B, h, 2, w, 2, C}), {0, 1, 3, 4, 2, 5});  // column before row
    const Tensor four = reshape(split, {B, h * w, 4 * C});
    return norms_after_ ? norm_(reduction_(four, context), context) : reduction_(norm_(four, context), context);
  }

 private:
  bool norms_after_;
  LayerNorm norm_;
  Linear reduction_;
};

class SwinStages {
 public:
  // `scope` is that of the list of stages.
  SwinStages(const Scope& scope, const SwinStagesConfig& c)
      : merges_first_(c.form.merges_first), gives_unmerged_(merges_first_ || c.form.gives_unmerged) {
    int64_t blocks = 0, block = 0;
    for (const int64_t depth : c.depths) blocks += depth;
    for (size_t i = 0; i < c.depths.size(); ++i) {
      const auto number = static_cast<int64_t>(i);
      std::vector<SwinLayer>& layers = stages_.emplace_back();
      for (int64_t k = 0; k < c.depths[i]; ++k, ++block) {
        const double place = static_cast<double>(block) / static_cast<double>(std::max<int64_t>(blocks - 1, 1));
        layers.emplace_back(scope / number / "blocks" / k, c, i, c.drop_path_rate * place, k % 2 == 1);
      }
      if (i + 1 < c.depths.size())
        downsample_.emplace_back(scope / (merges_first_ ? number + 1 : number) / "downsample", c, c.width_of(i));
    }
  }

  // x [B, L, C] of a grid -> x, then what is behind each stage, and behind its merging where that is its end.
  std::vector<Tensor> operator()(Tensor x, Extents grid, ForwardContext& context) const {
    std::vector<Tensor> states{x};
    for (size_t i = 0; i < stages_.size(); ++i) {
      for (const SwinLayer& layer : stages_[i])
        x = context.gradient_checkpointing && context.training
                ? checkpoint([&](const std::vector<Tensor>& in) { return layer(in[0], grid, context); }, {x})
                : layer(x, grid, context);
      if (gives_unmerged_) states.push_back(x);
      if (i < downsample_.size()) {
        x = downsample_[i](x, grid, context);
        grid = merged(grid);
      }
      if (!gives_unmerged_) states.push_back(x);
    }
    return states;
  }

  static Extents merged(Extents grid) { return {(grid[0] + 1) / 2, (grid[1] + 1) / 2}; }

 private:
  bool merges_first_, gives_unmerged_;
  std::vector<std::vector<SwinLayer>> stages_;
  std::vector<SwinPatchMerging> downsample_;
};

}  // namespace transom
