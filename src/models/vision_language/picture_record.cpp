// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/picture_record.h"

namespace transom {
namespace {

const std::vector<std::string> kVocabularyFields{"text_config.vocab_size", "vocab_size"};

FamilyHead picture_writing_head(const PictureRecord& record) {
  FamilyHead head = causal_lm_head(record.head, record.head);
  head.pipelines = {"text-generation", "image-text-to-text"};
  head.vocabulary_size = kVocabularyFields;
  return head;
}

FamilyInputs picture_text_inputs(const FamilyInputs& pixels) {
  FamilyInputs inputs = placed_text_inputs();
  for (FamilyInput& input : inputs)
    if (input.kind == FamilyInput::Kind::kTokens) input.table.fields = kVocabularyFields;
  for (FamilyInput input : pixels) {
    input.needed = false;
    input.exported = FamilyInput::Export::kNever;  // a file of ONNX has the decoder's part
    inputs.push_back(input);
  }
  return inputs;
}

Architecture picture_class(const PictureRecord& record, const std::string& name, FamilyHead head, DecoderHead kind) {
  return {name, std::move(head),
          [make = record.make, prefix = record.prefix, kind](const Config& config, const Scope& scope) {
            return make_decoder_model(config, scope, make, prefix, kind);
          }};
}

}  // namespace

Family picture_text_family(const PictureRecord& record) {
  return {.model_type = record.type,
          .base_prefix = "model",
          .architectures = {picture_class(record, record.writer, picture_writing_head(record), DecoderHead::kCausalLM),
                            picture_class(record, record.bare, body_head({}), DecoderHead::kNone)},
          .inputs = picture_text_inputs(record.pixels),
          .processors = {.tokenizer = record.tokenizer,
                         .image_processor = record.image_processor,
                         .positions = PositionLimit{{"text_config.max_position_embeddings", "max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false,
                         .image_tokens = record.image_tokens},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .renamed_parts = record.renamed_parts},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

}  // namespace transom
