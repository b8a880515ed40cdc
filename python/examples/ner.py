# SPDX-License-Identifier: Apache-2.0
"""Names in texts: ner.py --model_name_or_path MODEL --train_file train.conll --validation_file dev.conll --output_dir
OUT. Files have a word, a tab and its tag in each line, and an empty line behind each sentence."""
from dataclasses import dataclass, field

from transom import (AutoConfig, AutoModelForTokenClassification, AutoTokenizer, DataCollatorForTokenClassification,
                     HfArgumentParser, Trainer, TrainingArguments, set_seed)


@dataclass
class DataArguments:
    model_name_or_path: str = field(metadata={"help": "A directory or an id of the Hub."})
    train_file: str = field(metadata={"help": "Sentences to train on."})
    validation_file: str = field(metadata={"help": "Sentences to evaluate on."})
    max_train_samples: int = field(default=None, metadata={"help": "So many of the first sentences alone."})
    max_eval_samples: int = field(default=None, metadata={"help": "So many of the first sentences alone."})


def read(path, limit):
    sentences, words, tags = [], [], []
    with open(path, encoding="utf-8") as file:
        for line in [*file, "\n"]:
            word, _, tag = line.strip().partition("\t")
            if tag:
                words.append(word)
                tags.append(tag)
            elif words:
                sentences.append((words, tags))
                words, tags = [], []
    return sentences[:limit]


def main():
    data, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    train, validation = read(data.train_file, data.max_train_samples), read(data.validation_file, data.max_eval_samples)
    names = sorted({tag for _, tags in train + validation for tag in tags})
    config = AutoConfig.from_pretrained(data.model_name_or_path, num_labels=len(names), id2label=dict(enumerate(names)),
                                        label2id={name: i for i, name in enumerate(names)})
    tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)
    model = AutoModelForTokenClassification.from_pretrained(data.model_name_or_path, config=config,
                                                            ignore_mismatched_sizes=True)

    def features(sentences):
        encoded = tokenizer([words for words, _ in sentences], truncation=True, max_length=64,
                            is_split_into_words=True)
        rows = []
        for i, (_, tags) in enumerate(sentences):
            previous, labels = None, []
            for word in encoded.word_ids(batch_index=i):
                first = word is not None and word != previous
                labels.append(names.index(tags[word]) if first else -100)
                previous = word
            rows.append({"input_ids": encoded["input_ids"][i], "attention_mask": encoded["attention_mask"][i],
                         "labels": labels})
        return rows

    def metrics(prediction):
        chosen, labels = prediction.predictions.argmax(axis=2), prediction.label_ids
        counted = labels != -100
        return {"accuracy": float((chosen == labels)[counted].mean())}

    trainer = Trainer(model=model, args=training, train_dataset=features(train), eval_dataset=features(validation),
                      processing_class=tokenizer, data_collator=DataCollatorForTokenClassification(tokenizer),
                      compute_metrics=metrics)
    trainer.train()
    trainer.save_model()
    trainer.evaluate()
    trainer.save_state()


if __name__ == "__main__":
    main()
