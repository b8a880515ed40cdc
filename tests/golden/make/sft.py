# SPDX-License-Identifier: Apache-2.0
"""Runs of trl.SFTTrainer on a few rows of each form, and the tokens that it makes of them; how trl packs rows."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import datasets
import numpy as np
import torch
import transformers
import trl

import sft_pictures
from common import write_json, write_lines
from random_models import config_of, draw_weights
from trainers import QUIET, history_of
from vocabularies import load, make_tokenizer_files

# ChatML, with the marks of what the assistant writes.
MARKED = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}"
    "{% if message['content'] %}{{ message['content'] }}{% endif %}"
    "{% if message['tool_calls'] is defined and message['tool_calls'] %}{% for call in message['tool_calls'] %}"
    "{{ '<tool_call>' + (call['function'] | tojson) + '</tool_call>' }}{% endfor %}{% endif %}"
    "{{ '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}"
    "{% else %}{{ message['content'] + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TOOLED = "{% if tools %}{{ '<|im_start|>system\\n' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}" + MARKED
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}
FACTS = [
    ("What is the capital of France?", "Paris is the capital of France."),
    ("And of Italy?", "Rome."),
    ("Count to five.", "1, 2, 3, 4, 5"),
    ("Who wrote Hamlet?", "William Shakespeare wrote it, about the year 1600."),
    ("Say hello in German.", "Hallo! 👋"),
    ("Is the sun a star?", "Yes. It is the star that is nearest to us."),
    ("What is 12 times 12?", "144"),
    ("Name a prime between 20 and 30.", "23, and 29 too."),
    ("Write a haiku about snow.", "White on every roof,\nthe street has forgotten its\nnoise until the plough."),
    ("What is water made of?", "Hydrogen and oxygen: H₂O."),
    ("Which planet is the largest?", "Jupiter"),
    ("Translate 'gâteau'.", "cake"),
]


def say(role, text):
    return {"role": role, "content": text}


def chats():
    rows = []
    for i in range(12):
        turns = [say("system", "You are brief.")] if i % 3 == 0 else []
        for k in range(1 + i % 3):
            question, answer = FACTS[(i + 5 * k) % 12]
            turns += [say("user", question), say("assistant", answer)]
        rows.append({"messages": turns})
    return rows


def tool_rows():
    towns = ["Oslo", "Rome", "Bern", "Kyiv", "Lima", "Paris", "Delhi", "Cairo"]
    rows = []
    for i, town in enumerate(towns):
        call = {"type": "function", "function": {"name": "weather", "arguments": {"town": town}}}
        rows.append(
            {
                "messages": [
                    say("user", f"What is the weather in {town}?"),
                    {"role": "assistant", "content": "", "tool_calls": [call]},
                    say("tool", f"{i + 3} degrees"),
                    say("assistant", f"It is {i + 3} degrees."),
                ],
                "tools": json.dumps([WEATHER]),
            }
        )
    return rows


ROWS = {
    "chats": chats(),
    "tools": tool_rows(),
    "sharegpt": [
        {"conversations": [{"from": m["role"], "value": m["content"]} for m in row["messages"]]} for row in chats()
    ],
    "prompts": [{"prompt": q + " ", "completion": a} for q, a in FACTS],
    "chat-prompts": [{"prompt": [say("user", q)], "completion": [say("assistant", a)]} for q, a in FACTS],
    "texts": [{"text": q + " " + a} for q, a in FACTS],
}
BASE = dict(
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    learning_rate=1e-3,
    max_steps=10,
    logging_steps=1,
    seed=42,
    lr_scheduler_type="linear",
)
PACKED = dict(packing=True, max_length=180)
# name: rows, model, arguments
CASES = {
    "chats": ("chats", "qwen2", BASE),
    "chats-assistant-only": ("chats", "qwen2", BASE | dict(assistant_only_loss=True)),
    "chats-cut": ("chats", "qwen2", BASE | dict(assistant_only_loss=True, max_length=40)),
    "chats-accumulated": (
        "chats",
        "qwen2",
        BASE | dict(assistant_only_loss=True, per_device_train_batch_size=2, gradient_accumulation_steps=3, max_steps=6),
    ),
    "tools": ("tools", "qwen2", BASE | dict(assistant_only_loss=True, logging_steps=3)),
    "sharegpt": ("sharegpt", "qwen2", BASE),
    "prompts": ("prompts", "gpt2", BASE),
    "prompts-whole": ("prompts", "gpt2", BASE | dict(completion_only_loss=False)),
    "chat-prompts": ("chat-prompts", "qwen2", BASE),
    "chat-prompts-both": ("chat-prompts", "qwen2", BASE | dict(assistant_only_loss=True, weight_decay=0.1)),
    "texts": ("texts", "gpt2", BASE | dict(eval_strategy="steps", eval_steps=4)),
    "dft": ("chats", "qwen2", BASE | dict(assistant_only_loss=True, loss_type="dft")),
    "dft-accumulated": (
        "prompts",
        "gpt2",
        BASE | dict(loss_type="dft", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=6),
    ),
    "packed": ("chats", "qwen2", BASE | PACKED),
    "packed-assistant-only": ("chats", "qwen2", BASE | PACKED | dict(assistant_only_loss=True)),
    "packed-accumulated": (
        "chats",
        "qwen2",
        BASE | PACKED | dict(per_device_train_batch_size=1, gradient_accumulation_steps=3, assistant_only_loss=True),
    ),
    "packed-split": ("chats", "qwen2", BASE | PACKED | dict(packing_strategy="bfd_split", max_length=50)),
    "packed-wrapped": ("chats", "qwen2", BASE | PACKED | dict(packing_strategy="wrapped", max_length=50)),
    "packed-dft": ("chats", "qwen2", BASE | PACKED | dict(loss_type="dft")),
    "packed-gpt2": (
        "texts",
        "gpt2",
        BASE | PACKED | dict(max_length=64, per_device_train_batch_size=1, eval_strategy="steps", eval_steps=4),
    ),
    "packed-not-evaluated": (
        "texts",
        "gpt2",
        BASE | PACKED | dict(max_length=64, eval_packing=False, eval_strategy="steps", eval_steps=4),
    ),
    "packed-2-processes": ("chats", "qwen2", BASE | PACKED | dict(max_length=64, per_device_train_batch_size=2)),
    "padding-free": ("chats", "qwen2", BASE | dict(padding_free=True, max_length=None)),
}
PROCESSES = {"packed-2-processes": 2}  # others: one


def make_model(out, family, class_name, tokenizer_name, template):
    folder = out / family / "model"
    shutil.rmtree(folder, ignore_errors=True)
    make_tokenizer_files(tokenizer_name, folder)
    tokenizer = load(folder)
    if template:
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
        tokenizer.eos_token = "<|im_end|>"
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
    config = config_of(f"sft-{family}", family, class_name, True, tokenizer)
    if family == "gpt2":
        config.n_positions = 128  # rows of whole sentences
    model = getattr(transformers, class_name)._from_config(config, attn_implementation="eager")
    draw_weights(model, f"sft-{family}", False)
    model.save_pretrained(folder)


def make_case(name, rows, family, arguments, out):
    if name in PROCESSES and "RANK" not in os.environ:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={PROCESSES[name]}", __file__, name]
        subprocess.run(command + [str(out)], check=True)
        return
    folder = out / name
    start = out / family / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    model = transformers.AutoModelForCausalLM.from_pretrained(start, attn_implementation="eager", dtype=torch.float32)
    with tempfile.TemporaryDirectory() as work:
        given = arguments | dict(
            output_dir=work,
            **QUIET,
        )
        made = trl.SFTTrainer(
            model=model,
            args=trl.SFTConfig(**given),
            train_dataset=datasets.Dataset.from_list(rows),
            eval_dataset=datasets.Dataset.from_list(rows[:6]) if "eval_strategy" in arguments else None,
            processing_class=tokenizer,
        )
        columns = [key for key in ("input_ids", "labels", "seq_lengths") if key in made.train_dataset.column_names]
        samples = [{key: row[key] for key in columns} for row in made.train_dataset]
        history = history_of(made)
    if int(os.environ.get("RANK", 0)) > 0:
        return
    shutil.rmtree(folder, ignore_errors=True)
    write_lines(folder / "samples.jsonl", samples)
    write_json(folder / "log_history.json", history)
    write_json(folder / "training_args.json", arguments)
    about = {
        "name": name,
        "start": f"../{family}/model",
        "rows": f"../rows/{rows_name(rows)}.jsonl",
        "tolerance": {"rtol": 2e-3, "atol": 2e-4},
    }
    if name in PROCESSES:
        about["processes"] = PROCESSES[name]
    write_json(folder / "case.json", about)


def rows_name(rows):
    return next(name for name, others in ROWS.items() if others is rows)


def make_packings(out):
    """Which rows trl puts together, of rows of random lengths: more than the 1000 that it looks at at once."""
    random = np.random.default_rng(7)
    cases = []
    for count, longest, length, strategy in [
        (1500, 40, 64, "bfd"),
        (60, 100, 37, "bfd"),
        (60, 100, 37, "bfd_split"),
        (40, 30, 50, "wrapped"),
        (12, 9, 1, "bfd_split"),
    ]:
        lengths = random.integers(0 if strategy != "wrapped" else 1, longest + 1, count)
        # A token is its row times the longest length, plus its place.
        rows = [[i * 1000 + k for k in range(n)] for i, n in enumerate(lengths.tolist())]
        packed = trl.pack_dataset(datasets.Dataset.from_dict({"input_ids": rows}), length, strategy)
        pieces = []
        for row in packed:
            ids, bounds = row["input_ids"], []
            begin = 0
            for n in row.get("seq_lengths", [len(ids)]):
                bounds.append([ids[begin] // 1000, ids[begin] % 1000, n])
                begin += n
            pieces.append(bounds)
        cases.append({"lengths": lengths.tolist(), "length": length, "strategy": strategy, "rows": pieces})
    write_json(out / "packings.json", cases)


def make(out):
    out = out / "sft"
    for name, rows in ROWS.items():
        write_lines(out / "rows" / f"{name}.jsonl", rows)
    make_model(out, "qwen2", "Qwen2ForCausalLM", "qwen2", TOOLED)
    make_model(out, "gpt2", "GPT2LMHeadModel", "gpt2", None)
    make_packings(out)
    sft_pictures.make(out, pathlib.Path(__file__).resolve().parent.parent)
    for name, (rows, family, arguments) in CASES.items():
        make_case(name, ROWS[rows], family, arguments, out)


if __name__ == "__main__":  # one case, in one of its processes
    case_rows, case_family, case_arguments = CASES[sys.argv[1]]
    make_case(sys.argv[1], ROWS[case_rows], case_family, case_arguments, pathlib.Path(sys.argv[2]))
