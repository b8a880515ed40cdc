# SPDX-License-Identifier: Apache-2.0
"""Classes of texts: glue.py --model_name_or_path MODEL --train_file train.tsv --validation_file dev.tsv --output_dir OUT
Files are CSV or TSV: of the columns `sentence` or `text`, and `label`; without such a header lines have a text and a
class."""
import csv
from dataclasses import dataclass, field

from transom import (AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding,
                     EvalPrediction, HfArgumentParser, Trainer, TrainingArguments, set_seed)


@dataclass
class DataArguments:
    model_name_or_path: str = field(metadata={"help": "A directory or an id of the Hub."})
    train_file: str = field(metadata={"help": "Texts and classes to train on."})
    validation_file: str = field(metadata={"help": "Texts and classes to evaluate on."})
    max_seq_length: int = field(default=64, metadata={"help": "Longer texts are cut, in tokens."})
    max_train_samples: int = field(default=None, metadata={"help": "So many of the first rows alone."})
    max_eval_samples: int = field(default=None, metadata={"help": "So many of the first rows alone."})


def read(path, limit):
    comma = path.endswith(".csv")
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="," if comma else "\t", quoting=csv.QUOTE_MINIMAL if comma
                               else csv.QUOTE_NONE))
    header = {name.lower(): place for place, name in enumerate(rows[0])}
    text, label = header.get("sentence", header.get("text", 0)), header.get("label", 1)
    return [(row[text], int(row[label])) for row in rows if len(row) > max(text, label) and row[label].isdigit()][:limit]


def accuracy(prediction: EvalPrediction):
    return {"accuracy": float((prediction.predictions.argmax(axis=1) == prediction.label_ids).mean())}


def main():
    data, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    config = AutoConfig.from_pretrained(data.model_name_or_path, num_labels=2, finetuning_task="sst2")
    tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path, use_fast=True)
    model = AutoModelForSequenceClassification.from_pretrained(data.model_name_or_path, config=config,
                                                               ignore_mismatched_sizes=True)

    def features(path, limit):
        texts, labels = zip(*read(path, limit))
        encoded = tokenizer(list(texts), padding=False, max_length=data.max_seq_length, truncation=True)
        return [{"label": label, **{name: encoded[name][i] for name in encoded.keys()}}
                for i, label in enumerate(labels)]

    trainer = Trainer(model=model, args=training,
                      train_dataset=features(data.train_file, data.max_train_samples),
                      eval_dataset=features(data.validation_file, data.max_eval_samples),
                      compute_metrics=accuracy, processing_class=tokenizer,
                      data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8))
    result = trainer.train()
    trainer.save_model()
    trainer.log_metrics("train", result.metrics)
    trainer.save_metrics("train", result.metrics)
    metrics = trainer.evaluate(eval_dataset=trainer.eval_dataset)
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    trainer.save_state()


if __name__ == "__main__":
    main()
