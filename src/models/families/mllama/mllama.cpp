// SPDX-License-Identifier: Apache-2.0
// Llama 3.2 Vision (Grattafiori et al., "The Llama 3 herd of models", 2024): layers of a decoder look at the tiles of
// pictures. B batch, T time, M pictures of a text, t tiles, P places of one, D hidden.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "models/families/mllama/mllama_text.h"
#include "models/families/mllama/mllama_tower.h"
#include "models/loading/config_keys.h"
#include "models/nn/attention/attention.h"
#include "models/shared/placed_decoder.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_record.h"
#include "models/vision_language/picture_spans.h"
#include "models/vision_language/token_places.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kMllamaImage = 128256;
constexpr const char *kMllamaPixels = "pixel_values", *kForms = "aspect_ratio_ids", *kTiles = "aspect_ratio_mask",
                     *kSeen = "cross_attention_mask";

class MllamaDecoder : public SourceDecoder {
 public:
  MllamaDecoder(const Config& config, const Scope& scope)
      : image_token_(config.get_int("image_token_index", config.get_int("image_token_id", kMllamaImage))),
        vision_(part_config(config, "vision_config", "mllama_vision_model")),
        of_text_(part_config(config, "text_config", "mllama_text_model")),
        c_(vision_),
        vision_model_(scope / "vision_model", c_),
        language_model_(of_text_, scope / "language_model", c_.places),
        multi_modal_projector_(scope / "multi_modal_projector", c_.width(), language_model_.traits().width) {
    for (const Config* part : {&vision_, &of_text_}) {
      part->get_string("model_type", "");
      check_config_keys(*part);
    }
  }

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors rest;
    for (const auto& [name, tensor] : inputs.items())
      if (!is_of_pictures(name)) rest.set(name, tensor);
    if (!reads_beside_tokens(inputs)) return language_model_(rest, {}, context);
    const Tensor states = states_of(inputs, context);
    return language_model_(rest, beside(states, inputs), context);
  }

  DecoderTraits traits() const override { return language_model_.traits(); }
  const Embedding& word_embeddings() const override { return language_model_.word_embeddings(); }
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = Decoder::input_names();
    names.insert(names.end(), {kMllamaPixels, kForms, kTiles, kSeen});
    return names;
  }

  bool reads_beside_tokens(const NamedTensors& inputs) const override { return inputs.find(kMllamaPixels).defined(); }
  std::vector<std::vector<AttachedInput>> attached_inputs(const NamedTensors& inputs,
                                                          ForwardContext& context) const override;
  int64_t source_rows() const override { return c_.places; }
  AttendedPicture run_source(const NamedTensors& tensors, ForwardContext& context) const override;

 private:
  static bool is_of_pictures(const std::string& name) {
    return name == kMllamaPixels || name == kForms || name == kTiles || name == kSeen;
  }
  void check_pictures(const NamedTensors& inputs) const;
  Tensor states_of(const NamedTensors& inputs, ForwardContext& context) const;
  PicturesBeside beside(const Tensor& states, const NamedTensors& inputs) const;
  void check_seen(const NamedTensors& inputs, int64_t row, std::span<const FilledPlaces> spans) const;

  int64_t image_token_;
  Config vision_, of_text_;
  MllamaVisionConfig c_;
  MllamaTower vision_model_;
  MllamaText language_model_;
  Linear multi_modal_projector_;
};

void MllamaDecoder::check_pictures(const NamedTensors& inputs) const {
  const Tensor& pixels = inputs.at(kMllamaPixels);
  const int64_t t = c_.max_num_tiles, edge = c_.image_size;
  if (pixels.rank() != 6 || pixels.dim(0) * pixels.dim(1) < 1 || pixels.dim(2) != t ||
      pixels.dim(3) != c_.num_channels || pixels.dim(4) != edge || pixels.dim(5) != edge)
    fail("{}: expected [batch, pictures, {}, {}, {}, {}], found {}", kMllamaPixels, t, c_.num_channels, edge, edge,
         to_string(pixels.shape()));
  const int64_t B = pixels.dim(0), M = pixels.dim(1);
  const Tensor &ids = inputs.at(kForms), &tiles = inputs.at(kTiles);
  if (ids.shape() != Shape{B, M}) fail("{}: expected {}, found {}", kForms, to_string({B, M}), to_string(ids.shape()));
  if (tiles.rank() < 2 || tiles.dim(0) != B || tiles.dim(1) != M || tiles.size() != B * M * t)
    fail("{}: expected {}, found {}", kTiles, to_string({B, M, t}), to_string(tiles.shape()));
}

// [B, M t P, D]
Tensor MllamaDecoder::states_of(const NamedTensors& inputs, ForwardContext& context) const {
  check_pictures(inputs);
  const Tensor& pixels = inputs.at(kMllamaPixels);
  const int64_t B = pixels.dim(0), M = pixels.dim(1), t = c_.max_num_tiles;
  const Tensor ids = reshape(cast(inputs.at(kForms), DType::kInt64), {B * M});
  const Tensor mask = reshape(cast(inputs.at(kTiles), DType::kInt64), {B * M, t});
  const Tensor seen = vision_model_(flatten(pixels, 0, 1), ids, mask, context);
  const Tensor states = multi_modal_projector_(seen, context);
  return reshape(states, {B, M * t * c_.places, states.dim(3)});
}

// A token whose mask hides all pictures sees them all, and gets nothing of the feed-forward layer behind, as in
// Transformers. A text without pictures is not changed by the black ones that fill up its row.
PicturesBeside MllamaDecoder::beside(const Tensor& states, const NamedTensors& inputs) const {
  const Tensor forms = cast(inputs.at(kForms), DType::kInt64);  // 0: no picture, but one that fills up
  const Tensor reads = reshape(reduce_max(forms, {1}), {forms.dim(0), 1, 1});
  const Tensor mask = inputs.find(kSeen), ids = inputs.find("input_ids"), rows = inputs.find("inputs_embeds");
  if (!mask.defined()) return {.states = states, .reads = reads};
  const Tensor& text = ids.defined() ? ids : rows;
  if (!text.defined() || text.rank() < 2) fail("expected input_ids or inputs_embeds beside {}", kSeen);
  const int64_t B = text.dim(0), T = text.dim(1), M = forms.dim(1), n = M * c_.max_num_tiles, P = c_.places;
  if (const Shape expected{B, T, M, c_.max_num_tiles}; mask.shape() != expected)
    fail("{}: expected {}, found {}", kSeen, to_string(expected), to_string(mask.shape()));
  const Tensor tiles = cast(reshape(mask, {B, T, n}), DType::kInt64);
  const Tensor one = full({B, T, n}, 1, DType::kInt64);
  const Tensor seen = cast(equal(tiles, one), DType::kInt64), some = reduce_max(seen, {2});  // [B, T, n], [B, T]
  const Tensor visible = maximum(seen, one - reshape(some, {B, T, 1}));
  const Tensor places = broadcast_to(reshape(equal(visible, one), {B, T, n, 1}), {B, T, n, P});
  return {states, reshape(additive_where(places), {B, 1, T, n * P}), reshape(some, {B, T, 1}), reads};
}

AttendedPicture MllamaDecoder::run_source(const NamedTensors& tensors, ForwardContext& context) const {
  for (const auto& [name, tensor] : tensors.items())
    if (name == kSeen || !is_of_pictures(name))
      fail("an input beside the tokens: unknown {}; a picture is {}, {} and {}", quoted(name), kMllamaPixels, kForms,
           kTiles);
  check_pictures(tensors);
  if (tensors.at(kMllamaPixels).dim(0) * tensors.at(kMllamaPixels).dim(1) != 1)
    fail("{}: expected one picture, found {}", kMllamaPixels, to_string(tensors.at(kMllamaPixels).shape()));
  const std::vector<int64_t> tiles = cast(tensors.at(kTiles), DType::kInt64).to_vector<int64_t>();
  const auto seen = std::count(tiles.begin(), tiles.end(), 1);
  if (seen < 1 || std::count(tiles.begin(), tiles.begin() + seen, 1) != seen)
    fail("{}: expected ones for the tiles of the picture, and zeros behind them", kTiles);
  const int64_t form = cast(tensors.at(kForms), DType::kInt64).to_vector<int64_t>()[0];
  if (form < 0 || form > c_.forms) fail("{}: expected 0 to {}, found {}", kForms, c_.forms, form);
  const Tensor states = squeeze(states_of(tensors, context), 0);
  return {language_model_.keys_of(states, context), c_.max_num_tiles, seen};
}

// What cross_attention_mask says of a row has to be what follows from the places of its pictures, by which tokens that
// are written see them too.
void MllamaDecoder::check_seen(const NamedTensors& inputs, int64_t row, std::span<const FilledPlaces> spans) const {
  const Tensor mask = inputs.find(kSeen);
  if (!mask.defined()) fail("generate: {} is missing beside {}", kSeen, kMllamaPixels);
  const Tensor& tiles = inputs.at(kTiles);
  const int64_t T = inputs.at("input_ids").dim(1), M = tiles.dim(1), t = c_.max_num_tiles;
  if (mask.rank() != 4 || mask.dim(0) != tiles.dim(0) || mask.dim(1) != T || mask.dim(2) != M || mask.dim(3) != t)
    fail("{}: expected {}, found {}", kSeen, to_string({tiles.dim(0), T, M, t}), to_string(mask.shape()));
  const std::vector<int64_t> said = cast(slice(mask, 0, row, row + 1), DType::kInt64).to_vector<int64_t>();
  const std::vector<int64_t> there = cast(slice(tiles, 0, row, row + 1), DType::kInt64).to_vector<int64_t>();
  for (int64_t place = 0; place < T; ++place)
    for (int64_t tile = 0; tile < M * t; ++tile) {
      const auto picture = static_cast<size_t>(tile / t);
      const bool sees = picture < spans.size() && place >= spans[picture].begin && place < spans[picture].end() &&
                        there[static_cast<size_t>(tile)] == 1;
      if (said[static_cast<size_t>(place * M * t + tile)] != (sees ? 1 : 0))
        fail("{}: of row {}, token {}: expected {} for tile {} of picture {}, by the places of token {}", kSeen, row,
             place, sees ? 1 : 0, tile % t, picture, image_token_);
    }
}

std::vector<std::vector<AttachedInput>> MllamaDecoder::attached_inputs(const NamedTensors& inputs,
                                                                       ForwardContext&) const {
  for (const auto& [name, tensor] : inputs.items())
    if (name != "input_ids" && name != "attention_mask" && !is_of_pictures(name))
      fail("generate: unknown input {}; beside pictures this model takes input_ids and attention_mask", quoted(name));
  check_pictures(inputs);
  const Tensor& ids = inputs.at("input_ids");
  const Tensor& pixels = inputs.at(kMllamaPixels);
  if (ids.rank() != 2 || ids.dim(0) != pixels.dim(0))
    fail("input_ids: expected [{}, length], found {}", pixels.dim(0), to_string(ids.shape()));
  const std::vector<int64_t> all = ids.to_vector<int64_t>();
  const int64_t T = ids.dim(1);
  const NoGradient inference;
  std::vector<std::vector<AttachedInput>> rows;
  for (int64_t row = 0; row < ids.dim(0); ++row) {
    const std::span<const int64_t> tokens(all.data() + row * T, static_cast<size_t>(T));
    const std::vector<FilledPlaces> spans = spans_of_token(tokens, image_token_);
    if (static_cast<int64_t>(spans.size()) > pixels.dim(1))
      fail("input_ids: row {} has {} places for pictures (token {}), and {} are given", row, spans.size(), image_token_,
           pixels.dim(1));
    check_seen(inputs, row, spans);
    std::vector<AttachedInput>& attached = rows.emplace_back();
    for (size_t i = 0; i < spans.size(); ++i) {
      NamedTensors picture;
      const auto at = static_cast<int64_t>(i);
      for (const char* name : {kMllamaPixels, kForms, kTiles})
        picture.set(name, slice(slice(inputs.at(name), 0, row, row + 1), 1, at, at + 1));
      attached.push_back({.tensors = std::move(picture), .places = {{spans[i].begin, 1}}});
    }
  }
  return rows;
}

std::unique_ptr<Decoder> make_mllama(const Config& config, const Scope& scope) {
  return std::make_unique<MllamaDecoder>(config, scope);
}

Family mllama_family() {
  return picture_text_family({.type = "mllama",
                              .writer = "MllamaForConditionalGeneration",
                              .bare = "MllamaModel",
                              .make = make_mllama,
                              .prefix = "model",
                              .head = {"lm_head", "language_model.lm_head"},
                              .image_processor = "Mllama",
                              .image_tokens = {.token = "<|image|>",
                                               .id_fields = {"image_token_index", "image_token_id"},
                                               .id = kMllamaImage,
                                               .processor = "Mllama"},
                              .renamed_parts = {{"model.language_model.", "language_model.model."},
                                                {"language_model.", "language_model.model."},  // of the body alone
                                                {"lm_head.", "language_model.lm_head."},
                                                {"model.vision_model.", "vision_model."},
                                                {"model.multi_modal_projector.", "multi_modal_projector."}}});
}

const RegisterFamilies kMllamaFamily{mllama_family};

}  // namespace
}  // namespace transom
