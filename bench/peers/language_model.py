#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains GPT-2 on plain text with `transom train --task text-generation` and with Transformers' Trainer, from the same
weights, and lays the two curves of training and validation loss beside each other.

  language_model.py --text tinyshakespeare/input.txt --transom build/release/bin/transom --out FOLDER \
    [--n_embd 768 --n_layer 12 --n_head 12 --vocab_size 50257 --block_size 128 --batch_size 4 --max_steps 10]

The tokenizer is a byte-level BPE, trained on the text: the ids that the text has are then small ones of the vocabulary.
The last twentieth of the lines is for validation. Dropout is off, since its draws differ."""
import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

parser = argparse.ArgumentParser()
parser.add_argument("--text", required=True)
parser.add_argument("--transom", required=True)
parser.add_argument("--out", required=True)
parser.add_argument("--n_embd", type=int, default=768)
parser.add_argument("--n_layer", type=int, default=12)
parser.add_argument("--n_head", type=int, default=12)
parser.add_argument("--vocab_size", type=int, default=50257)
parser.add_argument("--tokens", type=int, default=2000, help="size of the BPE vocabulary")
parser.add_argument("--block_size", type=int, default=128)
parser.add_argument("--batch_size", type=int, default=4)
parser.add_argument("--max_steps", type=int, default=10)
parser.add_argument("--eval_steps", type=int, default=5)
parser.add_argument("--max_eval_samples", type=int, default=32)
parser.add_argument("--learning_rate", default="3e-4")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--peer", action="store_true", help="run the peer alone (used by the script itself)")
options = parser.parse_args()
out = Path(options.out)


def prepare():
    import tokenizers
    import torch
    import transformers

    lines = Path(options.text).read_text(encoding="utf-8").splitlines(keepends=True)
    split = len(lines) * 19 // 20
    (out / "train.txt").write_text("".join(lines[:split]), encoding="utf-8")
    (out / "validation.txt").write_text("".join(lines[split:]), encoding="utf-8")
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train([str(out / "train.txt")], vocab_size=options.tokens, special_tokens=["<|endoftext|>"],
                    show_progress=False)
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer._tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>",
        unk_token="<|endoftext|>", model_max_length=options.block_size)
    wrapped.save_pretrained(out / "model")
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=max(options.vocab_size, len(wrapped)), n_embd=options.n_embd, n_layer=options.n_layer,
        n_head=options.n_head, n_positions=max(options.block_size, 128), resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=0, eos_token_id=0))
    model.save_pretrained(out / "model")
    print(f"{model.num_parameters():,} parameters", flush=True)


def peer():
    import datasets
    import torch
    import transformers

    torch.set_num_threads(options.threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out / "model")
    model = transformers.GPT2LMHeadModel.from_pretrained(out / "model")
    raw = datasets.load_dataset("text", keep_linebreaks=True, cache_dir=str(out / "cache"), data_files={
        "train": str(out / "train.txt"), "validation": str(out / "validation.txt")})
    tokens = raw.map(lambda rows: tokenizer(rows["text"]), batched=True, remove_columns=["text"])

    def group(rows):
        joined = {name: list(itertools.chain(*lists)) for name, lists in rows.items()}
        total = len(joined["input_ids"]) // options.block_size * options.block_size
        result = {name: [ids[i:i + options.block_size] for i in range(0, total, options.block_size)]
                  for name, ids in joined.items()}
        result["labels"] = [list(ids) for ids in result["input_ids"]]
        return result

    blocks = tokens.map(group, batched=True)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(out / "peer"), per_device_train_batch_size=options.batch_size, report_to=[],
            per_device_eval_batch_size=8, max_steps=options.max_steps, learning_rate=float(options.learning_rate),
            eval_strategy="steps", eval_steps=options.eval_steps, logging_steps=1, save_strategy="no", use_cpu=True,
            eval_on_start=True, disable_tqdm=True, prediction_loss_only=True),
        train_dataset=blocks["train"],
        eval_dataset=blocks["validation"].select(range(min(options.max_eval_samples, len(blocks["validation"])))),
        data_collator=transformers.default_data_collator)
    trainer.train()
    (out / "peer.json").write_text(json.dumps(trainer.state.log_history))


def ours():
    environment = dict(os.environ, TRANSOM_NUM_THREADS=str(options.threads))
    subprocess.run(
        [options.transom, "train", "--task", "text-generation", "--model_name_or_path", str(out / "model"),
         "--train_file", str(out / "train.txt"), "--validation_file", str(out / "validation.txt"), "--output_dir",
         str(out / "transom"), "--block_size", str(options.block_size), "--per_device_train_batch_size",
         str(options.batch_size), "--max_steps", str(options.max_steps), "--learning_rate", options.learning_rate,
         "--eval_strategy", "steps", "--eval_steps", str(options.eval_steps), "--logging_steps", "1",
         "--save_strategy", "no", "--eval_on_start", "--max_eval_samples", str(options.max_eval_samples)],
        check=True, env=environment, stdout=subprocess.DEVNULL)
    return json.loads((out / "transom" / "trainer_state.json").read_text())["log_history"]


def curve(history, name):
    return {record["step"]: record[name] for record in history if name in record}


if options.peer:
    peer()
    sys.exit()
out.mkdir(parents=True, exist_ok=True)
prepare()
subprocess.run([sys.executable, *sys.argv, "--peer"], check=True, stdout=subprocess.DEVNULL)
found, expected = ours(), json.loads((out / "peer.json").read_text())
worst = 0.0
for name in ("loss", "eval_loss"):
    mine, theirs = curve(found, name), curve(expected, name)
    print(f"{name}: step, transom, Transformers")
    shown = sorted(theirs)[:: max(1, len(theirs) // 20)]
    for step in sorted(set(shown) | {max(theirs)}):
        print(f"  {step:5d}  {mine[step]:.6f}  {theirs[step]:.6f}")
    worst = max([worst] + [abs(mine[step] / theirs[step] - 1) for step in theirs])
print(f"largest relative difference of any two losses: {worst:.2e}")
