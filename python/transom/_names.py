# SPDX-License-Identifier: Apache-2.0
"""Which module of the package each public name is in. A partner's device may add modules: beside module.py of such a
one stands module.names, with its public names."""
import glob
import os

_NAMES = {
    "tokenization": "AutoTokenizer PreTrainedTokenizer PreTrainedTokenizerBase PreTrainedTokenizerFast BatchEncoding "
                    "BertTokenizer BertTokenizerFast DistilBertTokenizer DistilBertTokenizerFast RobertaTokenizer "
                    "RobertaTokenizerFast GPT2Tokenizer GPT2TokenizerFast T5Tokenizer T5TokenizerFast "
                    "AlbertTokenizer AlbertTokenizerFast ElectraTokenizer ElectraTokenizerFast XLMRobertaTokenizer "
                    "XLMRobertaTokenizerFast CamembertTokenizer CamembertTokenizerFast LlamaTokenizer "
                    "LlamaTokenizerFast BartTokenizer BartTokenizerFast MarianTokenizer MPNetTokenizer "
                    "MPNetTokenizerFast DebertaV2Tokenizer DebertaV2TokenizerFast CLIPTokenizer CLIPTokenizerFast "
                    "WhisperTokenizer Wav2Vec2CTCTokenizer",
    "configuration": "AutoConfig PretrainedConfig PreTrainedConfig",
    "modeling": "PreTrainedModel AutoModel AutoModelForSequenceClassification AutoModelForTokenClassification "
                "AutoModelForQuestionAnswering AutoModelForMaskedLM AutoModelForCausalLM AutoModelForSeq2SeqLM "
                "AutoModelForMultipleChoice AutoModelForImageClassification AutoModelForCTC "
                "AutoModelForAudioClassification AutoModelForSpeechSeq2Seq AutoModelForZeroShotImageClassification "
                "AutoModelForVisualQuestionAnswering "
                "AutoModelForObjectDetection AutoModelForSemanticSegmentation AutoModelForDepthEstimation "
                "AutoModelForZeroShotObjectDetection AutoModelForMaskGeneration "
                "BitsAndBytesConfig",
    "model_classes": "BertModel BertForSequenceClassification BertForTokenClassification BertForQuestionAnswering "
                     "BertForMaskedLM BertForMultipleChoice DistilBertModel DistilBertForSequenceClassification "
                     "DistilBertForTokenClassification DistilBertForQuestionAnswering DistilBertForMaskedLM "
                     "RobertaModel RobertaForSequenceClassification RobertaForTokenClassification "
                     "RobertaForQuestionAnswering RobertaForMaskedLM XLMRobertaForSequenceClassification "
                     "XLMRobertaForTokenClassification XLMRobertaForQuestionAnswering XLMRobertaForMaskedLM "
                     "AlbertForSequenceClassification AlbertForMaskedLM ElectraForSequenceClassification "
                     "CamembertForMaskedLM MPNetModel DebertaV2ForSequenceClassification ModernBertForMaskedLM "
                     "ModernBertForSequenceClassification GPT2Model GPT2LMHeadModel OPTForCausalLM "
                     "BloomForCausalLM GPTNeoXForCausalLM GPTBigCodeForCausalLM LlamaForCausalLM MistralForCausalLM "
                     "MixtralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM GemmaForCausalLM Gemma2ForCausalLM "
                     "Gemma3ForCausalLM Phi3ForCausalLM Starcoder2ForCausalLM T5ForConditionalGeneration "
                     "BartForConditionalGeneration MarianMTModel WhisperForConditionalGeneration ViTModel "
                     "ViTForImageClassification Dinov2ForImageClassification CLIPModel ResNetForImageClassification "
                     "EfficientNetForImageClassification ConvNextForImageClassification SwinForImageClassification "
                     "Wav2Vec2ForCTC Wav2Vec2ForSequenceClassification HubertForCTC HubertForSequenceClassification",
    "outputs": "ModelOutput",
    "generation": "GenerationConfig TextStreamer TextIteratorStreamer BaseStreamer LogitsProcessor "
                  "LogitsProcessorList",
    "image_processing": "AutoImageProcessor ImageProcessor ViTImageProcessor",
    "feature_extraction": "AutoFeatureExtractor FeatureExtractor Wav2Vec2FeatureExtractor WhisperFeatureExtractor",
    "processing": "AutoProcessor Processor Wav2Vec2Processor WhisperProcessor CLIPProcessor BlipProcessor "
                  "DonutProcessor",
    "pipelines": "pipeline Pipeline",
    "sentences": "SentenceTransformer CrossEncoder semantic_search cos_sim dot_score euclidean_sim manhattan_sim",
    "hard_negatives": "mine_hard_negatives",
    "training_args": "TrainingArguments Seq2SeqTrainingArguments IntervalStrategy SchedulerType",
    "trainer": "Trainer Seq2SeqTrainer",
    "trainer_callback": "TrainerCallback TrainerControl TrainerState EarlyStoppingCallback PrinterCallback "
                        "ProgressCallback DefaultFlowCallback",
    "trainer_utils": "EvalPrediction set_seed enable_full_determinism",
    "data_collator": "default_data_collator DefaultDataCollator DataCollatorWithPadding "
                     "DataCollatorForTokenClassification DataCollatorForSeq2Seq DataCollatorForLanguageModeling "
                     "DataCollatorForMultipleChoice",
    "hf_argparser": "HfArgumentParser",
    "errors": "TransomError",
    "tensors": "Tensor",
    "devices": "device_name devices infer_device set_device",
    "peft": "LoraConfig TaskType PeftModel get_peft_model",
    "logging": "",
}
OWN_NAMES = {name for names in _NAMES.values() for name in names.split()}
PARTNER_MODULES = []
for _file in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "*.names"))):
    PARTNER_MODULES.append(os.path.basename(_file)[:-len(".names")])
    with open(_file, encoding="utf-8") as _text:
        _NAMES[PARTNER_MODULES[-1]] = _text.read()
MODULE_OF_NAME = {name: module for module, names in _NAMES.items() for name in names.split()}
