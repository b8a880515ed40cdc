// SPDX-License-Identifier: Apache-2.0
// VisionEncoderDecoderModel of Transformers: an encoder of pictures of any family that gives their states, and a
// decoder that writes about them: ViT with GPT-2 for captions, ViT or DeiT with TrOCR's decoder for lines of
// handwriting, Donut's Swin with mBART's decoder for pages.
#include "base/error.h"
#include "models/families/encoder_decoder/source_writer.h"
#include "models/shared/record_parts.h"
#include "models/shared/vision_inputs.h"
#include "models/vision_language/model_part.h"

namespace transom {
namespace {

// Of the encoder's states; stages of a Swin double theirs one by one.
int64_t width_of_states(const Config& seer) {
  if (seer.has("hidden_size") || !seer.has("embed_dim")) return positive(seer, "hidden_size", 768);
  const size_t stages = seer.get_ints("depths", {2, 2, 6, 2}).size();
  if (stages < 1 || stages > 16) fail("{}: depths: expected 1 to 16 numbers, found {}", seer.where(), stages);
  return positive(seer, "embed_dim", 96, int64_t{1} << 20) << (stages - 1);
}

class SeenAndWritten : public EncoderDecoder {
 public:
  SeenAndWritten(const Config& config, const Scope& scope) {
    const Config seer = part_config(config, "encoder", "vit");
    encoder_ = make_part(seer, "image-feature-extraction", scope / "encoder");
    writer_.emplace(config, scope, width_of_states(seer));
  }

  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    return states_of_encoder(*encoder_, {{"pixel_values", inputs.at("pixel_values")}}, context);
  }
  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    return (*writer_)(in, source, context);
  }
  Tensor source_mask(const NamedTensors&) const override { return {}; }
  int64_t max_target_positions() const override { return writer_->max_positions(); }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const { return writer_->logits(hidden, context); }

 private:
  std::unique_ptr<Model> encoder_;
  std::optional<WriterOfSource> writer_;
};

class VisionEncoderDecoderModel : public ConditionalGenerationModel {
 public:
  VisionEncoderDecoderModel(const Config& config, const Scope& scope)
      : ConditionalGenerationModel(token_of_writer(config, "decoder_start_token_id"),
                                   token_of_writer(config, "pad_token_id")),
        both_(config, scope),
        names_tasks_(config.get_object("encoder").get_string("model_type", "").find("donut") != std::string::npos) {}

  // A text of Donut begins with the token of its task.
  bool begins_as_given() const override { return names_tasks_; }

 protected:
  const EncoderDecoder& body() const override { return both_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override { return both_.logits(hidden, context); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    if (inputs.find("labels").defined() && !inputs.find("decoder_input_ids").defined() && decoder_start_token_id_ < 0)
      fail("config.json: decoder_start_token_id: expected a number, which stands before the labels");
    return ConditionalGenerationModel::run(inputs, context);
  }
  std::vector<std::string> input_names() const override {
    return {"pixel_values", "decoder_input_ids", "decoder_attention_mask", "decoder_inputs_embeds", "labels"};
  }

 private:
  SeenAndWritten both_;
  bool names_tasks_;
};

Family vision_encoder_decoder_family() {
  return {.model_type = "vision-encoder-decoder",
          .base_prefix = "vision_encoder_decoder",
          .architectures = {{"VisionEncoderDecoderModel",
                             source_writing_head({"image-to-text", "document-question-answering"}),
                             make_model<VisionEncoderDecoderModel>}},
          .inputs = FamilyInputs{sized_pixels("encoder"), decoder_tokens({"decoder.vocab_size"})},
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

const RegisterFamilies kVisionEncoderDecoderFamily{vision_encoder_decoder_family};

}  // namespace
}  // namespace transom
