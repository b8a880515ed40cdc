#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of post_training_race.py: one run of TRL, sentence-transformers or Trainer, which ends with a line of JSON:
the seconds of its updates, those of the whole training, and the losses of its log."""
import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--task", required=True, choices=["sft", "dpo", "grpo", "pairs", "sst2"])
parser.add_argument("--model", required=True)
parser.add_argument("--train_file", required=True)
parser.add_argument("--output_dir", required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--rows", type=int, required=True, help="of an update")
parser.add_argument("--max_length", type=int, required=True)
parser.add_argument("--packing", action="store_true")
parser.add_argument("--lora", action="store_true")
parser.add_argument("--bf16", action="store_true")
parser.add_argument("--threads", type=int, default=2)
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
os.environ["HF_HUB_OFFLINE"] = "1"

import datasets  # noqa: E402  (the environment comes first)
import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(arguments.threads)
transformers.set_seed(42)


class Times(transformers.TrainerCallback):
    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *_, **__):
        self.begin = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.begin)


def adapters():
    import peft

    return peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM", target_modules="all-linear")


COMMON = dict(output_dir=arguments.output_dir, per_device_train_batch_size=arguments.rows, max_steps=arguments.steps,
              logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, bf16=arguments.bf16,
              gradient_checkpointing=False, dataloader_pin_memory=False, seed=42)


def fine_tuning(data):
    import trl

    options = trl.SFTConfig(packing=arguments.packing, max_length=arguments.max_length, **COMMON)
    return trl.SFTTrainer(model=arguments.model, args=options, train_dataset=data,
                          peft_config=adapters() if arguments.lora else None)


def preferences(data):
    import trl

    options = trl.DPOConfig(max_length=arguments.max_length, **COMMON)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    return trl.DPOTrainer(model=arguments.model, args=options, train_dataset=data, processing_class=tokenizer,
                          peft_config=adapters() if arguments.lora else None)


def policies(data):
    import trl

    options = trl.GRPOConfig(max_completion_length=arguments.max_length, **COMMON)
    wanted = arguments.max_length // 2
    return trl.GRPOTrainer(
        model=arguments.model, args=options, train_dataset=data,
        reward_funcs=lambda completion_ids, **_: [-abs(len(ids) - wanted) / wanted for ids in completion_ids])


def pairs(data):
    from sentence_transformers import (SentenceTransformer, SentenceTransformerTrainer,
                                       SentenceTransformerTrainingArguments, losses)

    model = SentenceTransformer(arguments.model, device="cpu")
    model.max_seq_length = arguments.max_length
    return SentenceTransformerTrainer(model=model, args=SentenceTransformerTrainingArguments(**COMMON),
                                      train_dataset=data, loss=losses.MultipleNegativesRankingLoss(model))


def classes(data):
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(arguments.model, num_labels=2)
    data = data.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=arguments.max_length), batched=True)
    return transformers.Trainer(model=model, args=transformers.TrainingArguments(**COMMON), train_dataset=data,
                                processing_class=tokenizer)


def main():
    kind = "csv" if arguments.train_file.endswith(".csv") else "json"
    data = datasets.load_dataset(kind, data_files=arguments.train_file, split="train", cache_dir=arguments.output_dir)
    makers = {"sft": fine_tuning, "dpo": preferences, "grpo": policies, "pairs": pairs, "sst2": classes}
    trainer = makers[arguments.task](data)
    times = Times()
    trainer.add_callback(times)
    begin = time.perf_counter()
    trainer.train()
    log = trainer.state.log_history
    print(json.dumps({"updates": times.seconds, "training": time.perf_counter() - begin,
                      "losses": [record["loss"] for record in log if "loss" in record]}), flush=True)


if __name__ == "__main__":
    main()
