// SPDX-License-Identifier: Apache-2.0
// VisionEncoderDecoderModel of Transformers: an encoder of pictures of any family that gives their states, and a
// decoder that writes about them: ViT with GPT-2 for captions, ViT or DeiT with TrOCR's decoder for lines of
// handwriting, Donut's Swin with mBART's decoder for pages.
#include "base/error.h"
#include "models/families/vision_encoder_decoder/picture_writer.h"
#include "models/loading/config_keys.h"
#include "models/run_inside.h"
#include "models/shared/record_parts.h"
#include "models/shared/vision_inputs.h"
#include "models/vision_language/model_part.h"

namespace transom {
namespace {

using MakeWriter = std::unique_ptr<PictureWriter> (*)(const Config&, const Scope&, int64_t);
constexpr std::pair<const char*, MakeWriter> kWriters[] = {
    {"gpt2", make_gpt2_writer}, {"mbart", make_mbart_writer}, {"trocr", make_trocr_writer}};

std::unique_ptr<PictureWriter> make_writer(const Config& config, const Scope& scope, int64_t source_width) {
  const std::string type = config.get_string("model_type");
  std::vector<std::string> known;
  for (const auto& [name, make] : kWriters) {
    if (type == name) return make(config, scope, source_width);
    known.emplace_back(name);
  }
  fail(ErrorKind::kUnsupported, "{}: decoder.model_type: expected {}, found {}", config.where(),
       fmt::join(known, " or "), quoted(type));
}

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
    const Config seer = part_config(config, "encoder", "vit"), writer = config.get_object("decoder");
    encoder_ = make_part(seer, "image-feature-extraction", scope / "encoder");
    const int64_t width = width_of_states(seer);
    decoder_ = make_writer(writer, scope / "decoder", width);
    if (width != decoder_->width() && !writer.has("cross_attention_hidden_size"))
      enc_to_dec_proj_.emplace(scope / "enc_to_dec_proj", width, decoder_->width());
    check_config_keys(writer);
  }

  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    ForwardContext seeing = context;
    seeing.cache = nullptr;
    const NamedTensors seen = run_inside(*encoder_, {{"pixel_values", inputs.at("pixel_values")}}, seeing);
    context.dropouts = seeing.dropouts;
    EncoderOutput output{.last_hidden_state = seen.at("last_hidden_state"), .hidden_states = {}};
    for (int64_t i = 0;; ++i) {
      const Tensor state = seen.find("hidden_states." + std::to_string(i));
      if (!state.defined()) break;
      output.hidden_states.push_back(state);
    }
    return output;
  }

  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    if (!enc_to_dec_proj_ || !source.states.defined()) return (*decoder_)(in, source, context);
    return (*decoder_)(in, {(*enc_to_dec_proj_)(source.states, context), source.mask, source.seen}, context);
  }
  Tensor source_mask(const NamedTensors&) const override { return {}; }
  int64_t max_target_positions() const override { return decoder_->max_positions(); }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const { return decoder_->logits(hidden, context); }

 private:
  std::unique_ptr<Model> encoder_;
  std::unique_ptr<PictureWriter> decoder_;
  std::optional<Linear> enc_to_dec_proj_;
};

// A token's number, of the whole or of its decoder; -1: nobody says.
int64_t token_of(const Config& config, const char* field) {
  return config.get_int(field, config.get_object("decoder").get_int(field, -1));
}

class VisionEncoderDecoderModel : public ConditionalGenerationModel {
 public:
  VisionEncoderDecoderModel(const Config& config, const Scope& scope)
      : ConditionalGenerationModel(token_of(config, "decoder_start_token_id"), token_of(config, "pad_token_id")),
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

FamilyHead picture_writing_head() {
  FamilyHead head =
      sequence_to_sequence_head({"image-to-text", "document-question-answering"},
                                {"decoder.output_projection", "decoder.lm_head"}, "decoder.output_projection");
  head.vocabulary = std::vector<std::string>{"decoder.output_projection", "decoder.lm_head"};
  head.vocabulary_size = {"decoder.vocab_size"};
  return head;
}

Family vision_encoder_decoder_family() {
  return {
      .model_type = "vision-encoder-decoder",
      .base_prefix = "vision_encoder_decoder",
      .architectures = {{"VisionEncoderDecoderModel", picture_writing_head(), make_model<VisionEncoderDecoderModel>}},
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
