// SPDX-License-Identifier: Apache-2.0
#include "models/head_traits.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace transom {
namespace {

TEST(HeadTraits, AreThoseOfTransformersNames) {
  EXPECT_TRUE(head_traits("LlamaForCausalLM").predicts_next_token);
  EXPECT_FALSE(head_traits("LlamaForCausalLM").counts_first_label);
  EXPECT_TRUE(head_traits("GPT2LMHeadModel").predicts_next_token);
  EXPECT_TRUE(head_traits("GPT2LMHeadModel").counts_first_label);
  EXPECT_FALSE(head_traits("BertForMaskedLM").predicts_next_token);
  for (const char* name : {"T5ForConditionalGeneration", "MarianMTModel", "WhisperForConditionalGeneration"}) {
    EXPECT_TRUE(head_traits(name).is_encoder_decoder) << name;
    EXPECT_TRUE(head_traits(name).generates_text) << name;
    EXPECT_FALSE(head_traits(name).predicts_next_token) << name;
  }
  EXPECT_FALSE(head_traits("BertModel").generates_text);
  EXPECT_TRUE(head_traits("ViTForImageClassification").classifies);
  EXPECT_TRUE(head_traits("BertForTokenClassification").classifies);
  EXPECT_FALSE(head_traits("BertForQuestionAnswering").classifies);
  EXPECT_TRUE(head_traits("BertForQuestionAnswering").answers_questions);
  EXPECT_TRUE(head_traits("Wav2Vec2ForCTC").aligns_without_labels);
}

}  // namespace
}  // namespace transom
