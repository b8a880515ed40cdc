// SPDX-License-Identifier: Apache-2.0
#include "models/shared/record_parts.h"

namespace transom {
namespace {

using Kind = FamilyInput::Kind;
using Export = FamilyInput::Export;

using Names = std::vector<std::string>;

const InputExtent kSequence{.name = "sequence_length"};

}  // namespace

FamilyHead body_head(Names pipelines, Names outputs, Names modules) {
  return {.task = HeadTask::kBody,
          .pipelines = std::move(pipelines),
          .labels = HeadLabels::kNone,
          .modules = std::move(modules),
          .vocabulary = none,
          .outputs = std::move(outputs)};
}

FamilyHead sequence_classification_head(Names modules) {
  return {.task = HeadTask::kSequenceClassification,
          .pipelines = {"text-classification", "zero-shot-classification"},
          .labels = HeadLabels::kClass,
          .modules = std::move(modules),
          .vocabulary = none,
          .outputs = {"logits"}};
}

FamilyHead token_classification_head(Names modules) {
  return {.task = HeadTask::kTokenClassification,
          .pipelines = {"token-classification"},
          .labels = HeadLabels::kTokenClasses,
          .modules = std::move(modules),
          .vocabulary = none,
          .outputs = {"logits"}};
}

FamilyHead question_answering_head(Names modules) {
  return {.task = HeadTask::kQuestionAnswering,
          .pipelines = {"question-answering"},
          .labels = HeadLabels::kSpan,
          .modules = std::move(modules),
          .vocabulary = none,
          .outputs = {"start_logits", "end_logits"}};
}

FamilyHead multiple_choice_head(Names modules) {
  return {.task = HeadTask::kMultipleChoice,
          .pipelines = {"multiple-choice"},
          .labels = HeadLabels::kChoice,
          .modules = std::move(modules),
          .vocabulary = none,
          .outputs = {"logits"}};
}

FamilyHead masked_lm_head(Names modules, Names vocabulary) {
  return {.task = HeadTask::kMaskedLM,
          .pipelines = {"fill-mask"},
          .labels = HeadLabels::kTokens,
          .modules = std::move(modules),
          .vocabulary = std::move(vocabulary),
          .outputs = {"logits"}};
}

FamilyHead causal_lm_head(Names modules, Names vocabulary, LossDivisor divisor) {
  return {.task = HeadTask::kCausalLM,
          .pipelines = {"text-generation"},
          .labels = HeadLabels::kTokens,
          .modules = std::move(modules),
          .vocabulary = std::move(vocabulary),
          .outputs = {"logits"},
          .divisor = divisor};
}

FamilyHead sequence_to_sequence_head(Names pipelines, Names modules, std::string vocabulary) {
  return {.task = HeadTask::kSequenceToSequence,
          .pipelines = std::move(pipelines),
          .labels = HeadLabels::kTokens,
          .modules = std::move(modules),
          .vocabulary = Names{std::move(vocabulary)},
          .outputs = {"logits"}};
}

FamilyHead image_classification_head(Names modules) {
  return {.task = HeadTask::kImageClassification,
          .pipelines = {"image-classification"},
          .labels = HeadLabels::kClass,
          .modules = std::move(modules),
          .vocabulary = none,
          .outputs = {"logits"}};
}

FamilyHead masked_image_head(Names modules) {
  return {.task = HeadTask::kMaskedImage,
          .pipelines = {"masked-image-modeling"},
          .labels = HeadLabels::kMaskedPatches,
          .modules = std::move(modules),
          .vocabulary = none,
          .outputs = {"reconstruction"}};
}

FamilyHead semantic_segmentation_head(Names modules) {
  return {.task = HeadTask::kSegmentation,
          .pipelines = {"image-segmentation"},
          .labels = HeadLabels::kPixelClasses,
          .modules = std::move(modules),
          .vocabulary = none,
          .outputs = {"logits"}};
}

FamilyInputs text_inputs() {
  return {{.name = "input_ids",
           .kind = Kind::kTokens,
           .axes = {kSequence},
           .table = {.name = "", .fields = {"vocab_size"}}},
          {.name = "attention_mask", .kind = Kind::kMask, .axes = {kSequence}, .needed = false}};
}

FamilyInputs placed_text_inputs(Export exported) {
  FamilyInputs inputs = text_inputs();
  inputs.push_back(
      {.name = "position_ids", .kind = Kind::kPositions, .axes = {kSequence}, .exported = exported, .needed = false});
  return inputs;
}

FamilyInputs typed_text_inputs(int64_t types, Export exported) {
  FamilyInputs inputs = placed_text_inputs();
  inputs.insert(inputs.begin() + 2, {.name = "token_type_ids",
                                     .kind = Kind::kTypes,
                                     .axes = {kSequence},
                                     .exported = exported,
                                     .needed = false,
                                     .table = {.name = "", .fields = {"type_vocab_size"}, .otherwise = types}});
  return inputs;
}

FamilyInputs decoder_inputs_with_types() {
  FamilyInputs inputs = placed_text_inputs(Export::kStates);
  inputs.insert(inputs.begin() + 2, {.name = "token_type_ids",
                                     .kind = Kind::kTypes,
                                     .axes = {kSequence},
                                     .exported = Export::kNever,
                                     .needed = false,
                                     .table = {.name = "", .fields = {"vocab_size"}}});
  return inputs;
}

FamilyInput decoder_tokens(const std::vector<std::string>& vocabulary) {
  return {.name = "decoder_input_ids",
          .kind = Kind::kDecoderTokens,
          .axes = {{.name = "decoder_sequence_length"}},
          .table = {.name = "", .fields = vocabulary}};
}

FamilyInputs text_to_text_inputs(bool needs_decoder_tokens, const std::vector<std::string>& decoder_vocabulary) {
  FamilyInputs inputs = text_inputs();
  FamilyInput written = decoder_tokens(decoder_vocabulary);
  written.needed = needs_decoder_tokens;
  if (!needs_decoder_tokens) written.exported = Export::kNever;
  inputs.push_back(std::move(written));
  return inputs;
}

FamilyInput sized_pixels(const std::string& part) {
  const std::string within = part.empty() ? "" : part + ".";
  return {.name = "pixel_values",
          .kind = Kind::kPixels,
          .axes = {{.name = "num_channels", .fields = {within + "num_channels"}, .otherwise = 3},
                   {.name = "height", .fields = {within + "image_size.0"}, .otherwise = 224},
                   {.name = "width", .fields = {within + "image_size.1"}, .otherwise = 224}}};
}

FamilyInput pixels_of_any_size(const std::string& channels) {
  return {
      .name = "pixel_values",
      .kind = Kind::kPixels,
      .axes = {{.name = "num_channels", .fields = {channels}, .otherwise = 3}, {.name = "height"}, {.name = "width"}}};
}

FamilyInputs sound_inputs() {
  return {{.name = "input_values", .kind = Kind::kSamples, .axes = {kSequence}},
          {.name = "attention_mask",
           .kind = Kind::kSampleMask,
           .axes = {kSequence},
           .exported = Export::kOptional,
           .needed = false}};
}

std::vector<ScaledLayers> gated_decoder_layers() {
  return {
      {.layers = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, .maker = "input_layernorm"},
      {.layers = {"self_attn.o_proj"}, .maker = "self_attn.v_proj", .maker_is_linear = true, .needs_equal_heads = true},
      {.layers = {"mlp.gate_proj", "mlp.up_proj"}, .maker = "post_attention_layernorm"},
      {.layers = {"mlp.down_proj"}, .maker = "mlp.up_proj", .maker_is_linear = true}};
}

}  // namespace transom
