# SPDX-License-Identifier: Apache-2.0
"""A language model on plain text: clm.py --model_name_or_path MODEL --train_file text.txt --output_dir OUT"""
import math
from dataclasses import dataclass, field

from transom import (AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments,
                     default_data_collator, set_seed)


@dataclass
class DataArguments:
    model_name_or_path: str = field(metadata={"help": "A directory or an id of the Hub."})
    train_file: str = field(metadata={"help": "A text."})
    block_size: int = field(default=32, metadata={"help": "The text is cut into blocks of so many tokens."})
    max_train_samples: int = field(default=None, metadata={"help": "So many of the first blocks alone."})


def main():
    data, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)
    model = AutoModelForCausalLM.from_pretrained(data.model_name_or_path)
    with open(data.train_file, encoding="utf-8") as file:
        ids = tokenizer(file.read()[:200000])["input_ids"]
    size = data.block_size
    blocks = [ids[at:at + size] for at in range(0, len(ids) // size * size, size)]
    rows = [{"input_ids": block, "labels": list(block)} for block in blocks]
    train, validation = rows[:data.max_train_samples], rows[-16:]
    trainer = Trainer(model=model, args=training, train_dataset=train, eval_dataset=validation,
                      processing_class=tokenizer, data_collator=default_data_collator,
                      compute_metrics=lambda p: {"accuracy": float((p.predictions[:, :-1] == p.label_ids[:, 1:]).mean())},
                      preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1))
    trainer.train()
    trainer.save_model()
    metrics = trainer.evaluate()
    print("perplexity", math.exp(metrics["eval_loss"]))
    trainer.save_state()
    prompt = tokenizer("First Citizen:", return_tensors="pt")
    print(tokenizer.decode(trainer.model.generate(**prompt, max_new_tokens=8, do_sample=False)[0]))


if __name__ == "__main__":
    main()
