// SPDX-License-Identifier: Apache-2.0
// Qwen3-VL (Bai et al., 2025): a tower whose learned positions are interpolated and which gives the decoder the states
// of several of its layers, to be added behind the first blocks (DeepStack, Meng et al., 2024), and Qwen 3's decoder,
// whose rotary pairs turn by time, row and column in turns. Videos are not read. n patches of one picture, m merge, D
// width.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/families/qwen_vl/qwen_vl.h"
#include "models/shared/blocks/planned_decoder.h"
#include "models/shared/rotary/rope_plan.h"
#include "models/vision_language/picture_positions.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr char kQwen3VlText[] = R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
  "max_position_embeddings": 128000, "rms_norm_eps": 1e-06})";

// Sections of one pair each, by the axis that it turns by: time, row and column in turns, as far as rows and columns
// have pairs, and time where they have none.
std::vector<int64_t> qwen3_sections_in_turn(const std::vector<int64_t>& sections, int64_t pairs) {
  std::vector<int64_t> turns;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t axis = pair % kPictureAxes,
                  own = pair < kPictureAxes * sections[static_cast<size_t>(axis)] ? axis : 0;
    while (static_cast<int64_t>(turns.size()) % kPictureAxes != own) turns.push_back(0);
    turns.push_back(1);
  }
  while (static_cast<int64_t>(turns.size()) % kPictureAxes != 0) turns.push_back(0);
  return turns;
}

std::unique_ptr<Decoder> make_qwen3_vl_text(const Config& given, const Scope& scope) {
  Config text = given;
  const std::vector<int64_t> sections = read_mrope(text, {24, 20, 20});
  RopeDecoderConfig c(text);
  c.head_norms = true;
  c.query_key_value_bias = c.output_bias = text.get_bool("attention_bias", false);
  c.rotary = {rotary_options(text, c.rotary_defaults(500000))};
  DecoderPlan plan = rope_decoder_plan(c);
  const int64_t pairs = c.rotary[0].width / 2;
  for (const int64_t each : sections)
    if (each < 0 || each > pairs)
      fail("{}: mrope_section: expected numbers of pairs up to {}, found {}", text.where(), pairs, each);
  plan.rotary[0].sections = qwen3_sections_in_turn(sections, pairs);
  return make_planned_decoder(std::move(plan), scope);
}

// Blocks of patches as rows for the decoder; the norm stands before the patches of a block are put together, or behind.
class Qwen3Merger {
 public:
  Qwen3Merger(const Scope& scope, const QwenVisionConfig& c, bool norm_behind)
      : width_(c.width * c.merge * c.merge),
        norm_behind_(norm_behind),
        norm_(scope / "norm", norm_behind ? width_ : c.width, 1e-6),
        linear_fc1_(scope / "linear_fc1", width_, width_, {.deviation = c.deviation}),
        linear_fc2_(scope / "linear_fc2", width_, c.out, {.deviation = c.deviation}) {}

  // [1, n, D] -> [n / m^2, out]
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Shape blocks{x.dim(1) * x.dim(2) / width_, width_};
    const Tensor normed = norm_behind_ ? norm_(reshape(x, blocks), context) : reshape(norm_(x, context), blocks);
    return linear_fc2_(gelu(linear_fc1_(normed, context)), context);
  }

 private:
  int64_t width_;
  bool norm_behind_;
  LayerNorm norm_;
  Linear linear_fc1_, linear_fc2_;
};

struct Qwen3VisionConfig {
  explicit Qwen3VisionConfig(const Config& given) {
    const Config config = with_defaults(given, R"({"depth": 27, "patch_size": 16})");
    c = qwen_vision_common(config);
    c.width = qwen_vision_number(config, "hidden_size", 1152);
    c.out = qwen_vision_number(config, "out_hidden_size", 3584);
    c.feed_forward = qwen_vision_number(config, "intermediate_size", 4304);
    c.activation = config.get_string("hidden_act", "gelu_pytorch_tanh");
    c.up = "linear_fc1", c.down = "linear_fc2";
    check_qwen_heads(c, config);
    const int64_t positions = qwen_vision_number(config, "num_position_embeddings", 2304);
    for (side = 1; (side + 1) * (side + 1) <= positions;) ++side;
    if (side * side != positions)
      fail("{}: num_position_embeddings: expected a square, found {}", config.where(), positions);
    layers = config.has("deepstack_visual_indexes") ? config.get_ints("deepstack_visual_indexes")
                                                    : std::vector<int64_t>{8, 16, 24};
    for (size_t i = 0; i < layers.size(); ++i)
      if (layers[i] < (i > 0 ? layers[i - 1] + 1 : 0) || layers[i] >= c.depth)
        fail("{}: deepstack_visual_indexes: expected ascending numbers of layers below {}, found {}", config.where(),
             c.depth, layers[i]);
  }
  QwenVisionConfig c;
  int64_t side = 1;             // of the square of learned positions
  std::vector<int64_t> layers;  // whose states are added behind blocks of the decoder
};

// Of a line of `extent` patches on a line of `side` positions: the position before each, and how far behind it the
// patch lies. In float32, as Transformers computes it.
struct Qwen3LinePlace {
  int64_t before = 0;
  float behind = 0;
};
Qwen3LinePlace qwen3_line_place(int64_t patch, int64_t extent, int64_t side) {
  const float at =
      static_cast<float>(patch) * static_cast<float>(side - 1) / static_cast<float>(std::max<int64_t>(extent - 1, 1));
  const auto before = static_cast<int64_t>(at);
  return {before, at - static_cast<float>(before)};
}

class Qwen3VisionTower : public QwenTower {
 public:
  Qwen3VisionTower(const Scope& scope, const Qwen3VisionConfig& config)
      : QwenTower(config.c),
        side_(config.side),
        layers_(config.layers),
        weight_((scope / "patch_embed" / "proj")
                    .parameter("weight", {c_.width, c_.channels, c_.frames, c_.patch, c_.patch},
                               Initial::normal(c_.deviation))),
        bias_((scope / "patch_embed" / "proj").parameter("bias", {c_.width}, Initial::zeros())),
        positions_((scope / "pos_embed").parameter("weight", {side_ * side_, c_.width}, Initial::normal(c_.deviation))),
        merger_(scope / "merger", c_, false),
        rotary_({.width = c_.width / c_.heads / 2, .theta = c_.theta}) {
    for (int64_t i = 0; i < c_.depth; ++i) blocks_.emplace_back(scope / "blocks" / i, c_);
    for (size_t i = 0; i < layers_.size(); ++i)
      mergers_.emplace_back(scope / "deepstack_merger_list" / static_cast<int64_t>(i), c_, true);
  }

  int64_t behind_blocks() const override { return static_cast<int64_t>(layers_.size()); }

  Tensor operator()(const Tensor& patches, int64_t height, int64_t width, ForwardContext& context) const override {
    const QwenPatchPlaces places = qwen_patch_places(c_, height, width);
    const RotaryAngles angles = qwen_vision_angles(rotary_, places);
    const Tensor projected =
        linear(patches, reshape(weight_->value, {c_.width, c_.numbers()}), bias_->value, context.computing);
    Tensor x = unsqueeze(projected + cast(interpolated(places, height, width), projected.dtype()), 0);
    std::vector<Tensor> rows(1);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      x = blocks_[i](x, angles, Tensor(), context);
      const auto found = std::find(layers_.begin(), layers_.end(), static_cast<int64_t>(i));
      if (found != layers_.end()) rows.push_back(mergers_[static_cast<size_t>(found - layers_.begin())](x, context));
    }
    rows[0] = merger_(x, context);
    return rows.size() == 1 ? rows[0] : concatenate(rows, 1);
  }

 private:
  // Of each patch the four learned positions around it, by their distance: [n, D]
  Tensor interpolated(const QwenPatchPlaces& places, int64_t height, int64_t width) const {
    const auto n = static_cast<int64_t>(places.rows.size());
    Tensor sum;
    for (int64_t corner = 0; corner < 4; ++corner) {
      std::vector<int64_t> ids;
      std::vector<float> weights;
      for (size_t i = 0; i < places.rows.size(); ++i) {
        const Qwen3LinePlace row = qwen3_line_place(places.rows[i], height, side_),
                             column = qwen3_line_place(places.columns[i], width, side_);
        const int64_t down = corner / 2, across = corner % 2;
        ids.push_back(std::min(row.before + down, side_ - 1) * side_ + std::min(column.before + across, side_ - 1));
        weights.push_back((down ? row.behind : 1 - row.behind) * (across ? column.behind : 1 - column.behind));
      }
      const Tensor table = positions_->value;
      const Tensor part = gather(table, Tensor::from(ids, {n}), 0) * cast(Tensor::from(weights, {n, 1}), table.dtype());
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

  int64_t side_;
  std::vector<int64_t> layers_;
  std::shared_ptr<Parameter> weight_, bias_, positions_;
  std::vector<QwenVisionBlock> blocks_;
  Qwen3Merger merger_;
  std::vector<Qwen3Merger> mergers_;
  RotaryEmbedding rotary_;
};

std::unique_ptr<QwenTower> make_qwen3_tower(const Config& vision, const Scope& scope) {
  return std::make_unique<Qwen3VisionTower>(scope, Qwen3VisionConfig(vision));
}

std::unique_ptr<Decoder> make_qwen3_vl(const Config& config, const Scope& scope) {
  return make_qwen_vl(config, scope, {kQwen3VlText, make_qwen3_vl_text, make_qwen3_tower});
}

Family qwen3_vl_family() { return qwen_vl_like("qwen3_vl", "Qwen3VL", make_qwen3_vl); }

const RegisterFamilies kQwen3VlFamily{qwen3_vl_family};

}  // namespace
}  // namespace transom
