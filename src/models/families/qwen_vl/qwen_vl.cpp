// SPDX-License-Identifier: Apache-2.0
// Qwen2-VL (Wang et al., 2024) and Qwen2.5-VL (Bai et al., 2025): a tower for pictures of any size, and Qwen 2's
// decoder, whose rotary positions have a time, a row and a column (M-RoPE). Videos are not read.
#include "models/families/qwen_vl/qwen_vl.h"

#include <utility>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/config_keys.h"
#include "models/shared/blocks/planned_decoder.h"
#include "models/shared/rotary/rope_plan.h"
#include "models/vision_language/picture_decoder.h"
#include "models/vision_language/picture_record.h"

namespace transom {
namespace {

constexpr int64_t kQwenVlImage = 151655;
constexpr char kQwenVlText[] = R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568,
  "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-05})";

class QwenVlReader : public PictureReader {
 public:
  QwenVlReader(const Config& vision, std::unique_ptr<QwenTower> tower, int64_t width) : tower_(std::move(tower)) {
    if (tower_->config().out != width)
      fail("{}: the tower makes rows of {} numbers, the decoder's have {} (hidden_size)", vision.where(),
           tower_->config().out, width);
  }

  // The last says what the tokens do; Transformers asks for it.
  std::vector<std::string> input_names() const override {
    return {"pixel_values", "image_grid_thw", "mm_token_type_ids"};
  }
  bool places_pictures() const override { return true; }

  // pixel_values [patches of all pictures, numbers], image_grid_thw [N, 3]
  PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const override {
    const Tensor& pixels = pictures.at("pixel_values");
    std::vector<Tensor> rows;
    int64_t first = 0;
    for (const PictureExtents& grid : grids_of(pictures)) {
      const int64_t end = first + grid.places();
      rows.push_back((*tower_)(slice(pixels, 0, first, end), grid.height, grid.width, context));
      first = end;
    }
    return {rows.size() == 1 ? rows[0] : concatenate(rows, 0)};
  }

  std::vector<PictureApart> apart(const NamedTensors& pictures, ForwardContext&) const override {
    const Tensor& pixels = pictures.at("pixel_values");
    std::vector<PictureApart> one_by_one;
    int64_t first = 0;
    for (const PictureExtents& grid : grids_of(pictures)) {
      const int64_t end = first + grid.places();
      const Tensor extents = Tensor::from(std::vector<int64_t>{1, grid.height, grid.width}, {1, 3});
      one_by_one.push_back({{{"pixel_values", slice(pixels, 0, first, end)}, {"image_grid_thw", extents}},
                            grid.places() / (merge() * merge())});
      first = end;
    }
    return one_by_one;
  }

  std::vector<PictureExtents> extents(const NamedTensors& pictures) const override {
    std::vector<PictureExtents> merged = grids_of(pictures);
    for (PictureExtents& grid : merged) grid.height /= merge(), grid.width /= merge();
    return merged;
  }

 private:
  int64_t merge() const { return tower_->config().merge; }

  // Of patches; checked against pixel_values.
  std::vector<PictureExtents> grids_of(const NamedTensors& pictures) const {
    constexpr int64_t kMost = 1 << 16;
    const Tensor &pixels = pictures.at("pixel_values"), &given = pictures.at("image_grid_thw");
    const int64_t numbers = tower_->config().numbers();
    if (pixels.rank() != 2 || pixels.dim(1) != numbers)
      fail("pixel_values: expected [patches, {}], found {}", numbers, to_string(pixels.shape()));
    if (given.rank() != 2 || given.dim(1) != 3 || given.dim(0) < 1)
      fail("image_grid_thw: expected [pictures, 3], found {}", to_string(given.shape()));
    const std::vector<int64_t> values = known_numbers(given, "image_grid_thw");
    std::vector<PictureExtents> grids;
    int64_t patches = 0;
    for (size_t i = 0; i + 2 < values.size(); i += 3) {
      const PictureExtents grid{values[i], values[i + 1], values[i + 2]};
      if (grid.frames != 1 || grid.height < 1 || grid.width < 1 || grid.height > kMost || grid.width > kMost ||
          grid.height % merge() != 0 || grid.width % merge() != 0)
        fail(
            "image_grid_thw: expected one frame, and multiples of {} (spatial_merge_size) up to {}, found {} x {} x {}",
            merge(), kMost, grid.frames, grid.height, grid.width);
      patches += grid.places();
      grids.push_back(grid);
    }
    if (patches != pixels.dim(0)) fail("image_grid_thw: {} patches, and pixel_values has {}", patches, pixels.dim(0));
    return grids;
  }

  std::unique_ptr<QwenTower> tower_;
};

}  // namespace

std::vector<int64_t> read_mrope(Config& text, std::vector<int64_t> sections) {
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const Json& json = json_of(text);
    if (!json.contains(field) || !json[field].is_object() || json[field].empty()) continue;
    Json rope = json[field];
    if (rope.contains("mrope_section")) {
      sections = text.get_object(field).get_ints("mrope_section");
      rope.erase("mrope_section");
    }
    rope.erase("mrope_interleaved");  // the family says it
    for (const char* kind : {"type", "rope_type"})
      if (rope.contains(kind) && rope[kind] == "mrope") rope[kind] = "default";
    set_field(text, field, std::move(rope));
    break;
  }
  if (sections.size() != static_cast<size_t>(kPictureAxes))
    fail("{}: mrope_section: expected {} numbers, found {}", text.where(), kPictureAxes, sections.size());
  return sections;
}

std::unique_ptr<Decoder> make_qwen_vl(const Config& config, const Scope& scope, const QwenVlParts& parts) {
  // Fields of the text stand beside the others in the files that Transformers 4 wrote.
  const Config text = with_defaults(config.has("text_config") ? config.get_object("text_config") : config,
                                    parts.text_defaults),
               vision = config.get_object("vision_config");
  std::unique_ptr<Model> body = make_decoder_model(text, scope / "model", parts.make_text, "", DecoderHead::kNone);
  std::unique_ptr<QwenTower> tower = parts.make_tower(vision, scope / "visual");
  const int64_t behind_blocks = tower->behind_blocks();
  auto reader = std::make_unique<QwenVlReader>(vision, std::move(tower), body_of(*body).traits().width);
  const bool tied = config.get_bool("tie_word_embeddings", false) || text.get_bool("tie_word_embeddings", false);
  if (config.has("text_config")) check_config_keys(text);
  check_config_keys(vision);
  for (const char* mark : {"video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id"})
    config.get_int(mark, 0);  // marks of texts, of which the places of pictures are not told by
  return make_vision_language_decoder(std::move(reader), std::move(body),
                                      {.image_token = config.get_int("image_token_id", kQwenVlImage),
                                       .tie_word_embeddings = tied,
                                       .behind_blocks = behind_blocks});
}

Family qwen_vl_like(const std::string& type, const std::string& name, MakeDecoder make) {
  return picture_text_family({.type = type,
                              .writer = name + "ForConditionalGeneration",
                              .bare = name + "Model",
                              .make = make,
                              .tokenizer = "Qwen2",
                              .image_processor = "Qwen2VL",
                              .image_tokens = {.token = "<|image_pad|>",
                                               .id_fields = {"image_token_id"},
                                               .id = kQwenVlImage,
                                               .processor = "Qwen2VL"},
                              .renamed_parts = {{"model.", "language_model."}}});
}
namespace {

std::unique_ptr<Decoder> make_qwen_vl_text(const Config& given, const Scope& scope) {
  Config text = given;
  const std::vector<int64_t> sections = read_mrope(text, {16, 24, 24});
  RopeDecoderConfig c(text);
  if (c.head_dim * c.num_attention_heads != c.hidden_size)
    fail("{}: hidden_size {} is not divisible by num_attention_heads {}", text.where(), c.hidden_size,
         c.num_attention_heads);
  c.query_key_value_bias = true;
  const bool uses_window = text.get_bool("use_sliding_window", false);
  const auto types = c.layer_types(text, [](const Config& config, int64_t layer) {
    return config.get_bool("use_sliding_window", false) && int_or_none(config, "sliding_window", 4096) > 0 &&
           layer >= config.get_int("max_window_layers", 80);
  });
  c.slide_where(text, types, uses_window ? int_or_none(text, "sliding_window", 4096) : 0);
  c.rotary = {rotary_options(text, c.rotary_defaults(1e6))};
  DecoderPlan plan = rope_decoder_plan(c);
  plan.rotary[0].sections = sections;
  return make_planned_decoder(std::move(plan), scope);
}

template <QwenVisionConfig read(const Config&)>
std::unique_ptr<QwenTower> make_qwen_tower(const Config& vision, const Scope& scope) {
  return std::make_unique<QwenVisionTower>(scope, read(vision));
}

template <QwenVisionConfig read(const Config&)>
std::unique_ptr<Decoder> make_older_qwen_vl(const Config& config, const Scope& scope) {
  return make_qwen_vl(config, scope, {kQwenVlText, make_qwen_vl_text, make_qwen_tower<read>});
}

Family qwen2_vl_family() { return qwen_vl_like("qwen2_vl", "Qwen2VL", make_older_qwen_vl<qwen2_vision_config>); }
Family qwen2_5_vl_family() {
  return qwen_vl_like("qwen2_5_vl", "Qwen2_5_VL", make_older_qwen_vl<qwen2_5_vision_config>);
}

const RegisterFamilies kQwenVlFamilies{qwen2_vl_family, qwen2_5_vl_family};

}  // namespace
}  // namespace transom
