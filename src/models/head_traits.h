// SPDX-License-Identifier: Apache-2.0
// What a model computes with its last layers, as far as others must know: training, pipelines, generation.
#pragma once

#include <string_view>

namespace transom {

// By the class that `architectures` of config.json names; Transformers' names of classes say it.
struct HeadTraits {
  bool predicts_next_token = false;  // ForCausalLM, LMHeadModel
  // Transformers' Trainer counts the labels that a loss is divided by: in classes called ForCausalLM without the first
  // of each row, which nothing predicts. In GPT2LMHeadModel, whose name does not say it, it counts that one too.
  bool counts_first_label = true;
  bool is_encoder_decoder = false;  // ForConditionalGeneration, MTModel
  bool generates_text = false;
  bool classifies = false;             // ForSequenceClassification, ForImageClassification ...
  bool answers_questions = false;      // ForQuestionAnswering
  bool aligns_without_labels = false;  // ForCTC: connectionist temporal classification
};
HeadTraits head_traits(std::string_view architecture);

}  // namespace transom
