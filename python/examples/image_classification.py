# SPDX-License-Identifier: Apache-2.0
"""Classes of images: image_classification.py --model_name_or_path MODEL --train_file digits.csv.gz --output_dir OUT.
Lines are the 64 pixels (0 to 16) of a picture of 8 x 8, and its class."""
import gzip
from dataclasses import dataclass, field

import numpy as np
import torch
from transom import (AutoImageProcessor, AutoModelForImageClassification, HfArgumentParser, Trainer, TrainingArguments,
                     set_seed)


@dataclass
class DataArguments:
    model_name_or_path: str = field(metadata={"help": "A directory or an id of the Hub."})
    train_file: str = field(metadata={"help": "Pictures and classes."})
    max_train_samples: int = field(default=None, metadata={"help": "So many of the first rows alone."})


class Pictures:
    """Turned into pixel values when they are read."""

    def __init__(self, rows, processor):
        self.rows, self.processor = rows, processor

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        picture = np.uint8(self.rows[i][:64].reshape(8, 8) * 15)
        picture = np.stack([picture] * 3, axis=-1)
        return {"pixel_values": self.processor(picture, return_tensors="np")["pixel_values"][0],
                "labels": int(self.rows[i][64])}


def collate(examples):
    return {"pixel_values": torch.as_tensor(np.stack([each["pixel_values"] for each in examples])),
            "labels": torch.tensor([each["labels"] for each in examples])}


def main():
    data, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    processor = AutoImageProcessor.from_pretrained(data.model_name_or_path)
    model = AutoModelForImageClassification.from_pretrained(data.model_name_or_path, num_labels=5,
                                                            ignore_mismatched_sizes=True)
    with gzip.open(data.train_file, "rt") as file:
        rows = np.array([[float(value) for value in line.split(",")] for line in file])
    rows = rows[rows[:, 64] < 5]
    train, validation = Pictures(rows[:data.max_train_samples], processor), Pictures(rows[-40:], processor)
    trainer = Trainer(model=model, args=training, train_dataset=train, eval_dataset=validation,
                      data_collator=collate, processing_class=processor,
                      compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(1) == p.label_ids).mean())})
    trainer.train()
    trainer.save_model()
    trainer.evaluate()
    trainer.save_state()


if __name__ == "__main__":
    main()
