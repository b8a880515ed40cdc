# SPDX-License-Identifier: Apache-2.0
"""Masked words: fill_mask.py --model_name_or_path MODEL --train_file text.txt --output_dir OUT. Every seventh token is
masked; DataCollatorForLanguageModeling draws masks at random instead."""
from dataclasses import dataclass, field

from transom import (AutoModelForMaskedLM, AutoTokenizer, DataCollatorForTokenClassification, HfArgumentParser,
                     Trainer, TrainingArguments, pipeline, set_seed)


@dataclass
class DataArguments:
    model_name_or_path: str = field(metadata={"help": "A directory or an id of the Hub."})
    train_file: str = field(metadata={"help": "Lines of text."})
    max_train_samples: int = field(default=None, metadata={"help": "So many of the first lines alone."})


def main():
    data, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)
    model = AutoModelForMaskedLM.from_pretrained(data.model_name_or_path)
    with open(data.train_file, encoding="utf-8") as file:
        lines = [line.strip() for line in file if len(line.split()) > 3][:data.max_train_samples]
    rows = []
    for ids in tokenizer(lines, truncation=True, max_length=40)["input_ids"]:
        labels = [token if i % 7 == 3 and i < len(ids) - 1 else -100 for i, token in enumerate(ids)]
        rows.append({"input_ids": [tokenizer.mask_token_id if label != -100 else token
                                   for token, label in zip(ids, labels)],
                     "attention_mask": [1] * len(ids), "labels": labels})
    trainer = Trainer(model=model, args=training, train_dataset=rows, eval_dataset=rows[:32],
                      processing_class=tokenizer, data_collator=DataCollatorForTokenClassification(tokenizer))
    trainer.train()
    trainer.save_model()
    trainer.evaluate()
    trainer.save_state()
    fill = pipeline("fill-mask", model=training.output_dir, tokenizer=training.output_dir)
    print(fill(f"the {tokenizer.mask_token} of the king", top_k=2))


if __name__ == "__main__":
    main()
