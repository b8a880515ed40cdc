// SPDX-License-Identifier: Apache-2.0
// BLIP: captions of pictures, answers to questions about them, and whether a text fits one. B batch, T tokens, S places
// of the source, D hidden, V vocabulary.
#include "base/error.h"
#include "models/families/bert/bert_predictions.h"
#include "models/families/blip/blip_parts.h"
#include "models/shared/record_parts.h"

namespace transom {
namespace {

// The arguments that a text encoder or decoder reads of those of the whole.
NamedTensors blip_text_inputs(const NamedTensors& inputs) { return clip_text_inputs(inputs); }

class BlipWriter {
 public:
  BlipWriter(const Scope& scope, const BlipConfig& c)
      : bert_(scope / "bert", c), cls_(scope, c.text, bert_.word_embeddings()) {}
  DecoderOutput operator()(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const {
    return bert_.write(in, source, context);
  }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const { return cls_(hidden, context); }
  // Logits of a whole text, and the loss of its labels, which are not shifted.
  NamedTensors outputs(Tensor hidden, const Tensor& labels, ForwardContext& context) const {
    if (context.logits_to_keep > 0 && context.logits_to_keep < hidden.dim(1) && !labels.defined())
      hidden = slice(hidden, 1, hidden.dim(1) - context.logits_to_keep, hidden.dim(1));
    const Tensor all = cls_(hidden, context);
    return with_loss(labels.defined() ? mean_cross_entropy(all, next_labels(labels), context) : Tensor(),
                     {{"logits", all}});
  }

 private:
  BlipText bert_;
  BertPredictions cls_;
};

NamedTensors with_picture(NamedTensors outputs, const CLIPTowerOutput& seen) {
  outputs.set("image_embeds", seen.last_hidden_state);
  outputs.set("last_hidden_state", seen.last_hidden_state);
  add_hidden_states(outputs, seen.hidden_states);
  return outputs;
}

// ---- captions

class BlipCaptioner : public EncoderDecoder {
 public:
  BlipCaptioner(const BlipConfig& c, const Scope& scope)
      : vision_model(scope / "vision_model", c.vision),
        text_decoder(scope / "text_decoder", c),
        max_positions_(c.text.max_position_embeddings) {}

  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    CLIPTowerOutput seen = vision_model(inputs, context);
    return {seen.last_hidden_state, std::move(seen.hidden_states)};
  }
  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    return text_decoder(in, source, context);
  }
  Tensor source_mask(const NamedTensors&) const override { return {}; }
  int64_t max_target_positions() const override { return max_positions_; }

  const BlipVisionTower vision_model;
  const BlipWriter text_decoder;

 private:
  int64_t max_positions_;
};

// What both writers share: between which tokens they write.
class BlipWritingModel : public ConditionalGenerationModel {
 public:
  std::optional<TextEnds> own_text_ends() const override {
    return TextEnds{c_.bos_token_id, c_.sep_token_id, pad_token_id_};
  }

 protected:
  explicit BlipWritingModel(const Config& config)
      : ConditionalGenerationModel(BlipConfig(config).bos_token_id, BlipConfig(config).text.pad_token_id.value_or(0)),
        c_(config) {}

  BlipConfig c_;
};

class BlipForConditionalGeneration : public BlipWritingModel {
 public:
  BlipForConditionalGeneration(const Config& config, const Scope& scope) : BlipWritingModel(config), both_(c_, scope) {}

  // input_ids are how the caption begins, as the tokenizer makes them: its first token becomes that of the decoder, and
  // its last one, which ends a text, is left out.
  NamedTensors generation_inputs(const NamedTensors& inputs) const override {
    NamedTensors read;
    for (const auto& [name, tensor] : inputs.items())
      if (name != "input_ids" && name != "attention_mask") read.set(name, tensor);
    const Tensor ids = inputs.find("input_ids"), mask = inputs.find("attention_mask");
    if (!ids.defined()) return read;
    if (ids.rank() != 2 || ids.dim(1) < 2)
      fail(
          "input_ids: expected [batch, length] of at least 2 tokens, the first and the last of the tokenizer, found {}",
          to_string(ids.shape()));
    const Tensor first = full({ids.dim(0), 1}, static_cast<double>(c_.bos_token_id), ids.dtype());
    read.set("decoder_input_ids", concatenate({first, slice(ids, 1, 1, ids.dim(1) - 1)}, 1));
    if (mask.defined()) read.set("decoder_attention_mask", slice(mask, 1, 0, mask.dim(1) - 1));
    return read;
  }

 protected:
  const EncoderDecoder& body() const override { return both_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override {
    return both_.text_decoder.logits(hidden, context);
  }
  std::vector<std::string> input_names() const override {
    return {"pixel_values", "input_ids", "attention_mask", "position_ids", "labels"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderInputs in =
        decoder_inputs(blip_text_inputs(inputs), context, Positions::kInOrder, both_.max_target_positions());
    const CLIPTowerOutput seen = both_.vision_model(inputs, context);
    const Tensor hidden = both_.text_decoder(in, {seen.last_hidden_state, {}}, context).last_hidden_state;
    return with_picture(both_.text_decoder.outputs(hidden, inputs.find("labels"), context), seen);
  }

 private:
  BlipCaptioner both_;
};

// ---- questions

class BlipAnswerer : public EncoderDecoder {
 public:
  BlipAnswerer(const BlipConfig& c, const Scope& scope)
      : vision_model(scope / "vision_model", c.vision),
        text_encoder(scope / "text_encoder", c),
        text_decoder(scope / "text_decoder", c),
        max_positions_(c.text.max_position_embeddings) {}

  // The states of a question that has looked at its picture.
  Tensor asked(const NamedTensors& inputs, const CLIPTowerOutput& seen, ForwardContext& context) const {
    return text_encoder.read(blip_text_inputs(inputs), {seen.last_hidden_state, {}}, context).last_hidden_state;
  }
  // The cache is the answer's.
  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    ForwardContext reading = context;
    reading.cache = nullptr;
    const CLIPTowerOutput seen = vision_model(inputs, reading);
    EncoderOutput output{.last_hidden_state = asked(inputs, seen, reading), .hidden_states = {}};
    context.dropouts = reading.dropouts;
    return output;
  }
  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    return text_decoder(in, source, context);
  }
  int64_t max_target_positions() const override { return max_positions_; }

  const BlipVisionTower vision_model;
  const BlipText text_encoder;
  const BlipWriter text_decoder;

 private:
  int64_t max_positions_;
};

void expect_one_width(const BlipConfig& c, const Config& config) {
  if (c.vision.hidden_size != c.text.hidden_size)
    fail(
        "{}: hidden_size of vision_config and text_config: expected one number, as layers read states of both, found "
        "{} and {}",
        config.where(), c.vision.hidden_size, c.text.hidden_size);
}

class BlipForQuestionAnswering : public BlipWritingModel {
 public:
  BlipForQuestionAnswering(const Config& config, const Scope& scope) : BlipWritingModel(config), all_(c_, scope) {
    expect_one_width(c_, config);
  }

 protected:
  const EncoderDecoder& body() const override { return all_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override {
    return all_.text_decoder.logits(hidden, context);
  }
  std::vector<std::string> input_names() const override {
    return {"pixel_values", "input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels"};
  }
  // Without decoder_input_ids the decoder reads the labels themselves, each of which is to tell the next.
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor labels = inputs.find("labels"), mask = inputs.find("decoder_attention_mask");
    Tensor ids = inputs.find("decoder_input_ids");
    if (!ids.defined() && !labels.defined()) fail("expected decoder_input_ids or labels, found neither");
    if (!ids.defined()) {
      const Tensor ignored = equal(labels, full(labels.shape(), -100, labels.dtype()));
      ids = select(ignored, full(labels.shape(), static_cast<double>(pad_token_id_), labels.dtype()), labels);
    }
    NamedTensors answer{{"input_ids", ids}};
    if (mask.defined()) answer.set("attention_mask", mask);
    const DecoderInputs in = decoder_inputs(answer, context, Positions::kInOrder, all_.max_target_positions());
    const CLIPTowerOutput seen = all_.vision_model(inputs, context);
    const EncodedSource question{all_.asked(inputs, seen, context), additive_mask(all_.source_mask(inputs))};
    const Tensor hidden = all_.text_decoder(in, question, context).last_hidden_state;
    return with_picture(all_.text_decoder.outputs(hidden, labels, context), seen);
  }

 private:
  BlipAnswerer all_;
};

// ---- pairs

// Whether a text belongs to a picture: two classes of each pair.
class BlipForImageTextRetrieval : public Model {
 public:
  BlipForImageTextRetrieval(const Config& config, const Scope& scope)
      : c_(config),
        vision_model_(scope / "vision_model", c_.vision),
        text_encoder_(scope / "text_encoder", c_),
        vision_proj_(scope / "vision_proj", c_.vision.hidden_size, config.get_int("image_text_hidden_size", 256)),
        text_proj_(scope / "text_proj", c_.text.hidden_size, config.get_int("image_text_hidden_size", 256)),
        itm_head_(scope / "itm_head", c_.text.hidden_size, 2, c_.text.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "position_ids", "pixel_values"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    CLIPTowerOutput seen = vision_model_(inputs, context);
    const Tensor hidden =
        text_encoder_.read(blip_text_inputs(inputs), {seen.last_hidden_state, {}}, context).last_hidden_state;
    const Tensor score = itm_head_(squeeze(slice(hidden, 1, 0, 1), 1), context);
    NamedTensors outputs{
        {"itm_score", score}, {"last_hidden_state", seen.last_hidden_state}, {"question_embeds", hidden}};
    add_hidden_states(outputs, seen.hidden_states);
    return outputs;
  }

 private:
  BlipConfig c_;
  BlipVisionTower vision_model_;
  BlipText text_encoder_;
  Linear vision_proj_, text_proj_;  // of a contrast that is made without itm_head
  Linear itm_head_;
};

class BlipModel : public Model {
 public:
  BlipModel(const Config& config, const Scope& scope)
      : c_(config),
        text_model_(scope / "text_model", c_),
        pooler_(scope / "text_model" / "pooler", c_.text),
        vision_model_(scope / "vision_model", c_.vision),
        visual_projection_(scope / "visual_projection", c_.vision.hidden_size, config.get_int("projection_dim", 512),
                           {.bias = false}),
        text_projection_(scope / "text_projection", c_.text.hidden_size, config.get_int("projection_dim", 512),
                         {.bias = false}),
        logit_scale_(scope.parameter("logit_scale", {},
                                     Initial::constant(config.get_float("logit_scale_init_value", 2.6592)))) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "position_ids", "pixel_values"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const CLIPTowerOutput seen = vision_model_(inputs, context);
    const Tensor image_embeds = to_unit_length(visual_projection_(seen.pooler_output, context));
    const DecoderOutput read = text_model_.read(blip_text_inputs(inputs), {}, context);
    const Tensor text_embeds = to_unit_length(text_projection_(pooler_(read.last_hidden_state, context), context));
    return agreement_outputs(text_embeds, image_embeds, logit_scale_->value, context);
  }

 private:
  BlipConfig c_;
  BlipText text_model_;
  BertPooler pooler_;
  BlipVisionTower vision_model_;
  Linear visual_projection_, text_projection_;
  std::shared_ptr<Parameter> logit_scale_;
};

// ---- the record

FamilyHead blip_writing_head(const std::vector<std::string>& pipelines) {
  FamilyHead head = sequence_to_sequence_head(pipelines, {"text_decoder.cls"}, "");
  head.vocabulary = none;  // Transformers' classes name no layer over it
  head.outputs = {"logits", "image_embeds", "last_hidden_state"};
  head.vocabulary_size = {"text_config.vocab_size"};
  head.begins_as_given = true;
  return head;
}

FamilyInputs blip_inputs() {
  FamilyInputs inputs = text_inputs();
  inputs[0].table.fields = {"text_config.vocab_size"};
  inputs.push_back(sized_pixels("vision_config"));
  return inputs;
}

FamilyInputs blip_question_inputs() {
  FamilyInputs inputs = blip_inputs();
  inputs.push_back(decoder_tokens({"text_config.vocab_size"}));
  return inputs;
}

Family blip_family() {
  return {.model_type = "blip",
          .base_prefix = "blip",
          .architectures = {{"BlipForConditionalGeneration", blip_writing_head({"image-to-text", "image-text-to-text"}),
                             make_model<BlipForConditionalGeneration>},
                            {"BlipForQuestionAnswering", blip_writing_head({"visual-question-answering"}),
                             make_model<BlipForQuestionAnswering>, blip_question_inputs()},
                            {"BlipForImageTextRetrieval",
                             {.task = HeadTask::kContrastive,
                              .pipelines = none,
                              .labels = HeadLabels::kNone,
                              .modules = {"vision_proj", "text_proj", "itm_head"},
                              .vocabulary = none,
                              .outputs = {"itm_score", "last_hidden_state", "question_embeds"}},
                             make_model<BlipForImageTextRetrieval>},
                            {"BlipModel", clip_head(), make_model<BlipModel>}},
          .inputs = blip_inputs(),
          .processors = {.tokenizer = "Bert",
                         .image_processor = "Blip",
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kBlipFamily{blip_family};

}  // namespace
}  // namespace transom
