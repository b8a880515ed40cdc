# SPDX-License-Identifier: Apache-2.0
"""Optimum Habana's names. The device is found as any other."""
import json
import os

from .trainer import Seq2SeqTrainer, Trainer
from .training_args import Seq2SeqTrainingArguments, TrainingArguments


class GaudiConfig:
    """gaudi_config.json. Fused optimizers and mixed precision are what Transom always does or TrainingArguments say."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    @classmethod
    def from_pretrained(cls, name, **_):
        path = os.path.join(os.fspath(name), "gaudi_config.json")
        with open(path, encoding="utf-8") as file:
            return cls(**json.load(file))

    def to_dict(self):
        return dict(self.__dict__)

    def save_pretrained(self, directory, **_):
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "gaudi_config.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n")


class GaudiTrainingArguments(TrainingArguments):
    """use_habana, use_lazy_mode, use_hpu_graphs_for_inference, gaudi_config_name ... besides."""


class GaudiSeq2SeqTrainingArguments(Seq2SeqTrainingArguments):
    """Both."""


class GaudiTrainer(Trainer):
    def __init__(self, model=None, gaudi_config=None, args=None, **keywords):
        self.gaudi_config = gaudi_config
        super().__init__(model=model, args=args, **keywords)


class GaudiSeq2SeqTrainer(Seq2SeqTrainer):
    def __init__(self, model=None, gaudi_config=None, args=None, **keywords):
        self.gaudi_config = gaudi_config
        super().__init__(model=model, args=args, **keywords)


def adapt_transformers_to_gaudi():
    """Nothing has to be adapted."""
