# SPDX-License-Identifier: Apache-2.0
"""Texts for texts: translation.py --model_name_or_path MODEL --train_file pairs.jsonl --output_dir OUT. Lines are
objects with source and target."""
import json
from dataclasses import dataclass, field

from transom import (AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, HfArgumentParser, Seq2SeqTrainer,
                     Seq2SeqTrainingArguments, set_seed)


@dataclass
class DataArguments:
    model_name_or_path: str = field(metadata={"help": "A directory or an id of the Hub."})
    train_file: str = field(metadata={"help": "Pairs of texts."})
    max_source_length: int = field(default=48, metadata={"help": "In tokens."})
    max_target_length: int = field(default=24, metadata={"help": "In tokens."})


def main():
    data, training = HfArgumentParser((DataArguments, Seq2SeqTrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(data.model_name_or_path)
    with open(data.train_file, encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    encoded = tokenizer([pair["source"] for pair in pairs], max_length=data.max_source_length, truncation=True)
    targets = tokenizer(text_target=[pair["target"] for pair in pairs], max_length=data.max_target_length,
                        truncation=True)
    rows = [{"input_ids": encoded["input_ids"][i], "attention_mask": encoded["attention_mask"][i],
             "labels": targets["input_ids"][i]} for i in range(len(pairs))]

    def metrics(prediction):
        ids = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        ids = ids.copy()
        ids[ids == -100] = tokenizer.pad_token_id
        labels = prediction.label_ids.copy()
        labels[labels == -100] = tokenizer.pad_token_id
        written = tokenizer.batch_decode(ids, skip_special_tokens=True)
        wanted = tokenizer.batch_decode(labels, skip_special_tokens=True)
        return {"exact": sum(a.strip() == b.strip() for a, b in zip(written, wanted)) / len(wanted),
                "letters": sum(map(len, written)) / len(written)}

    trainer = Seq2SeqTrainer(model=model, args=training, train_dataset=rows, eval_dataset=rows,
                             processing_class=tokenizer, compute_metrics=metrics,
                             data_collator=DataCollatorForSeq2Seq(tokenizer, model=model, label_pad_token_id=-100))
    trainer.train()
    trainer.save_model()
    trainer.evaluate(max_length=16, num_beams=2)
    trainer.save_state()


if __name__ == "__main__":
    main()
