// SPDX-License-Identifier: Apache-2.0
// EncoderDecoderModel of Transformers (Rothe et al., 2019): an encoder of texts of any family that gives their states,
// and a decoder that reads them, as BERT2BERT and RoBERTa2GPT-2 write summaries.
#include "base/error.h"
#include "models/families/encoder_decoder/source_writer.h"
#include "models/shared/record_parts.h"
#include "models/shared/vision_inputs.h"
#include "models/vision_language/model_part.h"

namespace transom {
namespace {

class ReadAndWritten : public EncoderDecoder {
 public:
  ReadAndWritten(const Config& config, const Scope& scope) {
    const Config reader = part_config(config, "encoder", "bert");
    encoder_ = make_part(reader, "feature-extraction", scope / "encoder");
    writer_.emplace(config, scope, width_of(reader));
  }

  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors read;
    for (const auto& [name, tensor] : inputs.items())
      if (name != "labels" && !name.starts_with("decoder_")) read.set(name, tensor);
    return states_of_encoder(*encoder_, read, context);
  }
  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    return (*writer_)(in, source, context);
  }
  int64_t max_target_positions() const override { return writer_->max_positions(); }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const { return writer_->logits(hidden, context); }

 private:
  // Of the encoder's states, by the names that Transformers has for it.
  static int64_t width_of(const Config& reader) {
    for (const char* field : {"hidden_size", "d_model", "n_embd", "dim"})
      if (reader.has(field)) return positive(reader, field, 768, int64_t{1} << 20);
    return 768;
  }

  std::unique_ptr<Model> encoder_;
  std::optional<WriterOfSource> writer_;
};

class EncoderDecoderModel : public ConditionalGenerationModel {
 public:
  EncoderDecoderModel(const Config& config, const Scope& scope)
      : ConditionalGenerationModel(token_of_writer(config, "decoder_start_token_id"),
                                   token_of_writer(config, "pad_token_id")),
        both_(config, scope) {}

 protected:
  const EncoderDecoder& body() const override { return both_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override { return both_.logits(hidden, context); }
  // Of labels alone the decoder sees no padding, as in Transformers.
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor labels = inputs.find("labels");
    if (!labels.defined() || inputs.find("decoder_input_ids").defined() ||
        inputs.find("decoder_inputs_embeds").defined())
      return ConditionalGenerationModel::run(inputs, context);
    if (decoder_start_token_id_ < 0)
      fail("config.json: decoder_start_token_id: expected a number, which stands before the labels");
    NamedTensors both = inputs;
    const Tensor ids = decoder_ids(labels);
    both.set("decoder_input_ids", ids);
    if (!inputs.find("decoder_attention_mask").defined()) {
      const Tensor padding = full(ids.shape(), static_cast<double>(pad_token_id_), ids.dtype());
      both.set("decoder_attention_mask", cast(not_equal(ids, padding), DType::kInt64));
    }
    return ConditionalGenerationModel::run(both, context);
  }
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = encoder_decoder_input_names();
    names.insert(names.begin() + 2, "token_type_ids");
    return names;
  }

 private:
  ReadAndWritten both_;
};

FamilyInputs inputs_of_both() {
  FamilyInputs inputs = text_to_text_inputs(true, {"decoder.vocab_size"});
  inputs.front().table.fields = {"encoder.vocab_size"};
  return inputs;
}

Family encoder_decoder_family() {
  return {.model_type = "encoder-decoder",
          .base_prefix = "encoder_decoder",
          .architectures = {{"EncoderDecoderModel",
                             source_writing_head({"text2text-generation", "summarization", "translation"}),
                             make_model<EncoderDecoderModel>}},
          .inputs = inputs_of_both(),
          .processors =
              {.tokenizer = none, .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kEncoderDecoderFamily{encoder_decoder_family};

}  // namespace
}  // namespace transom
