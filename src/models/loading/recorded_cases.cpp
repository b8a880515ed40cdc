// SPDX-License-Identifier: Apache-2.0
// Written by scripts/record-cases; do not edit.
#include "models/loading/catalogue.h"

namespace transom {

std::span<const RecordedCase> recorded_cases() {
  // clang-format off
  static const std::vector<RecordedCase> cases = {
      {"AlbertForMaskedLM", "albert-masked-lm", true},
      {"BartForConditionalGeneration", "bart", true},
      {"BertForMaskedLM", "bert-masked-lm", true},
      {"BertForPreTraining", "bert-pretraining", true},
      {"BertForQuestionAnswering", "bert-question-answering", true},
      {"BertForSequenceClassification", "bert-sequence-classification", true},
      {"BertForTokenClassification", "bert-token-classification", true},
      {"BloomForCausalLM", "bloom-lm", true},
      {"CamembertForMaskedLM", "camembert-masked-lm", true},
      {"CLIPModel", "clip", true},
      {"ConvNextForImageClassification", "convnext-image-classification", true},
      {"DebertaV2ForSequenceClassification", "deberta-v2-sequence-classification", true},
      {"Dinov2ForImageClassification", "dinov2-image-classification", true},
      {"DistilBertForSequenceClassification", "distilbert-sequence-classification", true},
      {"DLRM_Net", "dlrm", true},
      {"EfficientNetForImageClassification", "efficientnet-image-classification", true},
      {"ElectraForSequenceClassification", "electra-sequence-classification", true},
      {"Gemma2ForCausalLM", "gemma2-lm", true},
      {"GPTBigCodeForCausalLM", "gpt-bigcode-lm", true},
      {"GPTNeoXForCausalLM", "gpt-neox-lm", true},
      {"GPT2LMHeadModel", "gpt2-lm", true},
      {"HubertForCTC", "hubert-ctc", true},
      {"LlamaForCausalLM", "llama-lm", true},
      {"MarianMTModel", "marian", true},
      {"MistralForCausalLM", "mistral-lm", true},
      {"MixtralForCausalLM", "mixtral-lm", true},
      {"ModernBertForMaskedLM", "modernbert-masked-lm", true},
      {"MPNetModel", "mpnet-model", true},
      {"OPTForCausalLM", "opt-lm", true},
      {"Phi3ForCausalLM", "phi3-lm", true},
      {"Qwen2ForCausalLM", "qwen2-lm", true},
      {"Qwen3ForCausalLM", "qwen3-lm", true},
      {"ResNetForImageClassification", "resnet-image-classification", true},
      {"TimmWrapperForImageClassification", "resnext-timm-image-classification", true},
      {"RobertaForMaskedLM", "roberta-masked-lm", true},
      {"Starcoder2ForCausalLM", "starcoder2-lm", true},
      {"SwinForImageClassification", "swin-image-classification", true},
      {"T5ForConditionalGeneration", "t5", true},
      {"ViTForImageClassification", "vit-image-classification", true},
      {"Wav2Vec2ForCTC", "wav2vec2-ctc", true},
      {"Wav2Vec2ForSequenceClassification", "wav2vec2-sequence-classification", true},
      {"WhisperForConditionalGeneration", "whisper", true},
      {"XLMRobertaForTokenClassification", "xlm-roberta-token-classification", true},
  };
  // clang-format on
  return cases;
}

}  // namespace transom
