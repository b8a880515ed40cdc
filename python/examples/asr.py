# SPDX-License-Identifier: Apache-2.0
"""Speech to letters: asr.py --model_name_or_path MODEL --train_file clips.jsonl --output_dir OUT. Lines are objects with
seconds, pitch and text: the sounds are made here, so that nothing has to be downloaded."""
import json
from dataclasses import dataclass, field

import numpy as np
from transom import (AutoFeatureExtractor, AutoModelForCTC, AutoTokenizer, HfArgumentParser, Trainer,
                     TrainingArguments, Wav2Vec2Processor, set_seed)


@dataclass
class DataArguments:
    model_name_or_path: str = field(metadata={"help": "A directory or an id of the Hub."})
    train_file: str = field(metadata={"help": "What is said, and how."})


class Collator:
    """Pads sounds and letters, each among themselves."""

    def __init__(self, processor):
        self.processor = processor

    def __call__(self, features):
        sounds = [{"input_values": row["input_values"]} for row in features]
        letters = [{"input_ids": row["labels"]} for row in features]
        batch = self.processor.pad(sounds, padding=True, return_tensors="pt")
        rows = self.processor.pad(labels=letters, padding=True)
        longest = max(len(row["labels"]) for row in features)
        batch["labels"] = np.array([row["labels"] + [-100] * (longest - len(row["labels"])) for row in features])
        assert len(rows["input_ids"][0]) == longest
        return as_batch(batch)


def as_batch(batch):
    import torch

    return {name: torch.as_tensor(value) for name, value in batch.items()}


def sound_of(row, rate):
    times = np.arange(int(row["seconds"] * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * row["pitch"] * times)).astype(np.float32)


def main():
    data, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    extractor = AutoFeatureExtractor.from_pretrained(data.model_name_or_path)
    tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)
    processor = Wav2Vec2Processor(feature_extractor=extractor, tokenizer=tokenizer)
    model = AutoModelForCTC.from_pretrained(data.model_name_or_path)
    with open(data.train_file, encoding="utf-8") as file:
        clips = [json.loads(line) for line in file]
    rows = [{"input_values": extractor(sound_of(clip, extractor.sampling_rate),
                                       sampling_rate=extractor.sampling_rate)["input_values"][0],
             "labels": tokenizer(clip["text"])["input_ids"]} for clip in clips]
    trainer = Trainer(model=model, args=training, train_dataset=rows, eval_dataset=rows,
                      data_collator=Collator(processor), processing_class=extractor)
    trainer.train()
    trainer.save_model()
    trainer.evaluate()
    trainer.save_state()


if __name__ == "__main__":
    main()
