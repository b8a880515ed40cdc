# SPDX-License-Identifier: Apache-2.0
"""Transformers' classes of models, as names of the Auto classes: the configuration says which architecture it is."""
from . import modeling

_TASKS = {"ForSequenceClassification": None, "ForTokenClassification": "AutoModelForTokenClassification",
          "ForQuestionAnswering": "AutoModelForQuestionAnswering", "ForMaskedLM": "AutoModelForMaskedLM",
          "ForMultipleChoice": "AutoModelForMultipleChoice", "ForCausalLM": "AutoModelForCausalLM",
          "LMHeadModel": "AutoModelForCausalLM", "MTModel": "AutoModelForSeq2SeqLM",
          "ForImageClassification": "AutoModelForImageClassification", "ForCTC": "AutoModelForCTC",
          "CLIPModel": "PreTrainedModel", "Model": "AutoModel"}


def __getattr__(name):
    if name.startswith(("Wav2Vec2", "Hubert")) and name.endswith("ForSequenceClassification"):
        return modeling.AutoModelForAudioClassification
    if name.endswith("ForSequenceClassification"):
        return modeling.AutoModelForSequenceClassification
    if name.endswith("ForConditionalGeneration"):
        return modeling.AutoModelForSpeechSeq2Seq if name.startswith("Whisper") else modeling.AutoModelForSeq2SeqLM
    for ending, auto in _TASKS.items():
        if auto and name.endswith(ending):
            return getattr(modeling, auto)
    raise AttributeError(name)
