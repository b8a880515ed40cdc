#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a classifier of sentences with Transformers' Trainer, as `transom train` is told to by race.py."""
import argparse
import csv

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--train_file", required=True)
parser.add_argument("--output_dir", required=True)
parser.add_argument("--max_steps", type=int, required=True)
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--threads", type=int, default=2)
arguments = parser.parse_args()

import torch  # noqa: E402
import transformers  # noqa: E402
from datasets import Dataset  # noqa: E402

torch.set_num_threads(arguments.threads)
transformers.set_seed(42)
with open(arguments.train_file, encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
model = transformers.AutoModelForSequenceClassification.from_pretrained(arguments.model, num_labels=2)
data = Dataset.from_dict({"text": [row["text"] for row in rows], "label": [int(row["label"]) for row in rows]})
data = data.map(lambda batch: tokenizer(batch["text"], truncation=True, max_length=128), batched=True)
trainer = transformers.Trainer(
    model=model,
    args=transformers.TrainingArguments(
        output_dir=arguments.output_dir, per_device_train_batch_size=arguments.batch_size, max_steps=arguments.max_steps,
        learning_rate=5e-5, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, logging_steps=50),
    train_dataset=data,
    processing_class=tokenizer,
)
trainer.train()
trainer.save_model()
