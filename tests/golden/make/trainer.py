# SPDX-License-Identifier: Apache-2.0
"""Curves of transformers.Trainer on two small sets of rows, with many of its arguments."""

import csv
import json
import pathlib
import shutil
import tempfile

import torch
import transformers

from common import ROOT, TEXTS, generator, write_json, write_lines
from random_models import config_of, draw_weights
from vocabularies import load, make_tokenizer_files

BERT = dict(
    per_device_train_batch_size=8,
    per_device_eval_batch_size=16,
    learning_rate=5e-4,
    num_train_epochs=2,
    logging_steps=1,
    seed=42,
    optim="adamw_torch",
    weight_decay=0.0,
)
GPT2 = BERT | dict(per_device_train_batch_size=4)
CASES = {
    "bert-accum4-cosine": BERT
    | dict(
        num_train_epochs=4,
        gradient_accumulation_steps=4,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,
        max_grad_norm=0.3,
    ),
    "bert-adafactor": BERT | dict(learning_rate=1e-3, optim="adafactor", lr_scheduler_type="constant"),
    "bert-eval-best": BERT
    | dict(
        weight_decay=0.1,
        eval_strategy="steps",
        eval_steps=6,
        save_strategy="steps",
        save_steps=6,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        save_total_limit=2,
    ),
    "bert-label-smoothing": BERT
    | dict(label_smoothing_factor=0.1, lr_scheduler_type="constant_with_warmup", warmup_steps=7),
    "bert-plateau": BERT
    | dict(
        eval_strategy="steps",
        eval_steps=4,
        lr_scheduler_type="reduce_lr_on_plateau",
        lr_scheduler_kwargs=dict(patience=0, factor=0.5, threshold=0.05),
    ),
    "bert-resume": BERT | dict(weight_decay=0.01, save_strategy="steps", save_steps=20, warmup_steps=5),
    "bert-seed42-linear-warmup": BERT | dict(num_train_epochs=3, weight_decay=0.01, warmup_steps=10),
    "bert-sequential-linear": BERT | dict(train_sampling_strategy="sequential"),
    "bert-sgd-polynomial": BERT
    | dict(
        learning_rate=0.05,
        optim="sgd",
        lr_scheduler_type="polynomial",
        lr_scheduler_kwargs=dict(power=2.0, lr_end=1e-4),
        max_grad_norm=0.0,
    ),
    "gpt2-accum4-sequential": GPT2
    | dict(
        train_sampling_strategy="sequential",
        gradient_accumulation_steps=4,
        lr_scheduler_type="cosine_with_restarts",
        lr_scheduler_kwargs=dict(num_cycles=2),
        warmup_steps=3,
    ),
    "gpt2-seed42-linear": GPT2 | dict(num_train_epochs=1, weight_decay=0.01, max_grad_norm=0.5),
}
ACCUMULATION = (
    "Right, and not what Trainer 5.24 prints: the gradient and the loss of an update are those of its whole batch, the "
    "mean over its rows (Trainer adds up the means of the micro batches, transformers#47688). Recorded with the whole "
    "batch at once; learning rates and epochs are those of the accumulated run."
)


def lines():
    licence = [line.strip() for line in (ROOT / "LICENSE").read_text().splitlines() if len(line.split()) > 3]
    return licence + [text for text in TEXTS if len(text.split()) > 2 and text.isprintable()]


def make_data(out):
    """data-bert: three classes of lines; data-gpt2: blocks of 16 tokens; each with a model to start from."""
    random = generator("rows of the trainer")
    texts = lines()
    texts = [texts[i] for i in torch.randperm(len(texts), generator=random)[:128].tolist()]
    labels = torch.randint(0, 3, (128,), generator=random).tolist()
    for kind, family, class_name, tokenizer_name in (
        ("data-bert", "bert", "BertForSequenceClassification", "bert"),
        ("data-gpt2", "gpt2", "GPT2LMHeadModel", "gpt2"),
    ):
        folder = out / kind
        shutil.rmtree(folder, ignore_errors=True)
        make_tokenizer_files(tokenizer_name, folder / "model")
        tokenizer = load(folder / "model")
        config = config_of(kind, family, class_name, True, tokenizer)
        model = getattr(transformers, class_name)._from_config(config, attn_implementation="eager")
        draw_weights(model, kind, False)
        if kind == "data-bert":  # chances near a third at first
            with torch.no_grad():
                model.classifier.weight.mul_(0.3)
        model.save_pretrained(folder / "model")
        for split, part in (("train", slice(0, 104)), ("validation", slice(104, 128))):
            with open(folder / f"{split}.csv", "w", newline="") as file:
                rows = csv.writer(file, lineterminator="\n")
                rows.writerow(["text", "label"] if kind == "data-bert" else ["text"])
                rows.writerows(
                    zip(texts[part], labels[part]) if kind == "data-bert" else [[text] for text in texts[part]]
                )
            if kind == "data-bert":
                made = [
                    {"input_ids": tokenizer(text)["input_ids"][:40], "labels": label}
                    for text, label in zip(texts[part], labels[part])
                ]
            else:
                ids = [token for text in texts[part] for token in tokenizer(text)["input_ids"]]
                blocks = [ids[i : i + 16] for i in range(0, len(ids) - 15, 16)]
                made = [{"input_ids": block, "labels": block} for block in blocks[: 88 if split == "train" else 20]]
            write_lines(folder / f"{split}.jsonl", made)


class Rows(torch.utils.data.Dataset):
    """Rows that note when they are taken."""

    def __init__(self, rows):
        self.rows, self.taken = rows, []

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        self.taken.append(i)
        return self.rows[i]

    def epochs(self, count):
        assert len(self.taken) == count * len(self.rows)
        return [self.taken[i * len(self.rows) : (i + 1) * len(self.rows)] for i in range(count)]


def collate(pad):
    def together(rows):
        length = max(len(row["input_ids"]) for row in rows)
        ids = torch.full((len(rows), length), pad)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
            mask[i, : len(row["input_ids"])] = 1
        one = isinstance(rows[0]["labels"], list)
        labels = torch.tensor([row["labels"] for row in rows])
        return {"input_ids": ids, "attention_mask": mask, "labels": labels if one else labels}

    return together


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def accuracy(given):
    logits, labels = given
    return {"accuracy": float((logits.argmax(-1) == labels).mean())}


def run(data, arguments, work, is_bert, resume=None):
    """A whole run: its log, and the trainer."""
    kind = transformers.AutoModelForSequenceClassification if is_bert else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(data / "model", attn_implementation="eager")
    given = (
        dict(
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        | arguments
    )
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(output_dir=str(work), **given),
        train_dataset=Rows(rows_of(data / "train.jsonl")),
        eval_dataset=rows_of(data / "validation.jsonl"),
        data_collator=collate(model.config.pad_token_id),
        compute_metrics=accuracy if is_bert else None,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    trainer.evaluate()
    return trainer


def history_of(trainer):
    kept = []
    for record in trainer.state.log_history:
        kept.append(
            {key: value for key, value in record.items() if not key.endswith(("_runtime", "_per_second", "total_flos"))}
        )
    return kept


def with_whole_batches(data, arguments, work, history):
    """The losses and norms of updates that see their whole batch; rates and epochs as in `history`."""
    steps = arguments["gradient_accumulation_steps"]
    whole = {key: value for key, value in arguments.items() if key != "gradient_accumulation_steps"}
    whole["per_device_train_batch_size"] = steps * arguments["per_device_train_batch_size"]
    trainer = run(data, whole, work, True)
    made = history_of(trainer)
    assert [record["step"] for record in made] == [record["step"] for record in history]
    for record, other in zip(made, history):
        record["epoch"] = other["epoch"]
        if "learning_rate" in record:
            assert record["learning_rate"] == other["learning_rate"]
    return made


def make_case(name, arguments, out):
    folder, is_bert = out / name, name.startswith("bert")
    data = out / ("data-bert" if is_bert else "data-gpt2")
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        trainer = run(data, arguments, work / "run", is_bert)
        history = history_of(trainer)
        about = {
            "name": name,
            "start": f"../{data.name}/model",
            "class": type(trainer.model).__name__,
            "steps": trainer.state.max_steps,
            "data": f"../{data.name}/train.jsonl (ids; the same rows as text in train.csv)",
            "tolerance": {"loss": {"rtol": 2e-3, "atol": 2e-4}},
        }
        if trainer.state.best_metric is not None:
            about["best_metric"] = trainer.state.best_metric
            about["best_checkpoint"] = pathlib.Path(trainer.state.best_model_checkpoint or "").name
        if is_bert and "gradient_accumulation_steps" in arguments:
            history, about["note_on_accumulation"] = (
                with_whole_batches(data, arguments, work / "whole", history),
                ACCUMULATION,
            )
        if name == "bert-resume":
            kept = folder / "checkpoint-20"
            kept.mkdir(parents=True)
            shutil.copyfile(work / "run" / "checkpoint-20" / "trainer_state.json", kept / "trainer_state.json")
            again = run(data, arguments, work / "resumed", True, str(work / "run" / "checkpoint-20"))
            write_json(folder / "resumed_log_history.json", history_of(again))
        write_json(
            folder / "order.json",
            {"rows": len(trainer.train_dataset), "epochs": trainer.train_dataset.epochs(arguments["num_train_epochs"])},
        )
    write_json(folder / "training_args.json", arguments)
    write_json(folder / "log_history.json", history)
    write_json(folder / "case.json", about)


def make(out):
    out = out / "trainer"
    make_data(out)
    for name, arguments in CASES.items():
        make_case(name, arguments, out)
