// SPDX-License-Identifier: Apache-2.0
// SAM (Kirillov et al., 2023): masks of what is pointed at in a picture, by points, boxes and masks. B pictures, N
// masks a picture.
#include "base/error.h"
#include "models/families/sam/sam_parts.h"

namespace transom {
namespace {

class SamModel : public Model {
 public:
  SamModel(const Config& config, const Scope& scope)
      : c_(config),
        shared_image_embedding_(scope / "shared_image_embedding", c_.vision),
        vision_encoder_(scope / "vision_encoder", c_.vision),
        prompt_encoder_(scope / "prompt_encoder", c_.prompt, shared_image_embedding_),
        mask_decoder_(scope / "mask_decoder", c_) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"pixel_values", "input_points", "input_labels", "input_boxes", "input_masks", "image_embeddings"};
  }
  // image_embeddings, which an earlier pass gave, take the place of the picture.
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    EncoderOutput picture;
    picture.last_hidden_state = inputs.find("image_embeddings");
    if (!picture.last_hidden_state.defined()) {
      picture = vision_encoder_(inputs, context);
    } else if (inputs.find("pixel_values").defined()) {
      fail("expected pixel_values or image_embeddings, found both");
    }
    const Tensor& seen = picture.last_hidden_state;
    const int64_t grid = c_.vision.grid();
    if (seen.rank() != 4 || seen.shape() != Shape{seen.dim(0), c_.prompt.hidden_size, grid, grid})
      fail("image_embeddings: expected [pictures, {}, {}, {}], found {}", c_.prompt.hidden_size, grid, grid,
           to_string(seen.shape()));
    const Tensor positions = unsqueeze(shared_image_embedding_.of_grid(grid), 0);
    const SamMaskDecoder::Masks found = mask_decoder_(seen + prompt_encoder_.places(inputs, context), positions,
                                                      prompt_encoder_.tokens(inputs), context);
    NamedTensors outputs{{"iou_scores", found.scores}, {"pred_masks", found.masks}, {"image_embeddings", seen}};
    for (size_t i = 0; i < picture.hidden_states.size(); ++i)
      outputs.set("vision_hidden_states." + std::to_string(i), picture.hidden_states[i]);
    return outputs;
  }

 private:
  SamConfig c_;
  SamPositions shared_image_embedding_;
  SamVisionEncoder vision_encoder_;
  SamPromptEncoder prompt_encoder_;
  SamMaskDecoder mask_decoder_;
};

}  // namespace

static Family sam_family() {
  return {.model_type = "sam",
          .base_prefix = "sam",
          .architectures = {{"SamModel",
                             {.task = HeadTask::kSegmentation,
                              .pipelines = {"mask-generation"},
                              .labels = HeadLabels::kNone,
                              .modules = {"prompt_encoder", "mask_decoder"},
                              .vocabulary = none,
                              .outputs = {"iou_scores", "pred_masks"}},
                             make_model<SamModel>}},
          .inputs = {sized_pixels("vision_config")},
          .processors =
              {.tokenizer = none, .image_processor = "Sam", .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kSamFamily{sam_family};

}  // namespace transom
