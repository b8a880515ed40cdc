# SPDX-License-Identifier: Apache-2.0
"""Answers in texts: qa.py --model_name_or_path MODEL --train_file train.jsonl --output_dir OUT. Lines are objects with
question, context, answer and answer_start."""
import json
from dataclasses import dataclass, field

from transom import (AutoModelForQuestionAnswering, AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments,
                     default_data_collator, set_seed)


@dataclass
class DataArguments:
    model_name_or_path: str = field(metadata={"help": "A directory or an id of the Hub."})
    train_file: str = field(metadata={"help": "Questions, contexts and answers."})
    max_seq_length: int = field(default=48, metadata={"help": "Of question and context, in tokens."})
    doc_stride: int = field(default=12, metadata={"help": "Tokens that windows of a long context share."})


def main():
    data, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)
    model = AutoModelForQuestionAnswering.from_pretrained(data.model_name_or_path)
    with open(data.train_file, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    encoded = tokenizer([row["question"] for row in rows], [row["context"] for row in rows], truncation="only_second",
                        max_length=data.max_seq_length, stride=data.doc_stride, return_overflowing_tokens=True,
                        return_offsets_mapping=True, padding="max_length")
    features = []
    for i, offsets in enumerate(encoded["offset_mapping"]):
        row, parts = rows[encoded["overflow_to_sample_mapping"][i]], encoded.sequence_ids(i)
        begin, end = row["answer_start"], row["answer_start"] + len(row["answer"])
        context = [place for place, part in enumerate(parts) if part == 1]
        first = last = 0
        if offsets[context[0]][0] <= begin and offsets[context[-1]][1] >= end:
            first = max(place for place in context if offsets[place][0] <= begin)
            last = min(place for place in context if offsets[place][1] >= end)
        features.append({"input_ids": encoded["input_ids"][i], "attention_mask": encoded["attention_mask"][i],
                         "token_type_ids": encoded["token_type_ids"][i], "start_positions": first,
                         "end_positions": last})

    def metrics(prediction):
        starts, ends = prediction.predictions
        first, last = prediction.label_ids
        return {"exact": float(((starts.argmax(1) == first) & (ends.argmax(1) == last)).mean())}

    trainer = Trainer(model=model, args=training, train_dataset=features, eval_dataset=features,
                      processing_class=tokenizer, data_collator=default_data_collator, compute_metrics=metrics)
    trainer.train()
    trainer.save_model()
    trainer.evaluate()
    trainer.save_state()


if __name__ == "__main__":
    main()
