# SPDX-License-Identifier: Apache-2.0
"""Runs of trl.SFTTrainer on chats with pictures, of vision-language models of the main cases."""

import tempfile

import datasets
import torch
import transformers
import trl
from PIL import Image, ImageDraw

import grids
import patch_blocks
import vision_language
from common import write_json, write_lines
from trainers import QUIET, history_of

SHAPES = {  # name: colour, extents
    "red-disc": ((210, 40, 30), (24, 20)),
    "blue-disc": ((30, 60, 200), (19, 26)),
    "green-square": ((40, 160, 60), (22, 22)),
    "white-square": ((240, 240, 240), (30, 15)),
}


def say(role, text):
    return {"role": role, "content": text}


def parts(role, *contents):
    """Pictures are marked by None."""
    return {
        "role": role,
        "content": [{"type": "image", "text": None} if each is None else {"type": "text", "text": each} for each in contents],
    }


def ask(name):
    colour, form = name.split("-")
    return f"Which {'colour' if form == 'disc' else 'form'}?", colour if form == "disc" else f"a {form}"


NAMES = list(SHAPES)
ROWS = {
    "pictures": [
        {"messages": [say("user", ask(name)[0]), say("assistant", ask(name)[1])], "image": name + ".png"}
        for name in NAMES + NAMES[:2]
    ],
    # One without pictures alone: torch counts the updates of weights apart that an update does not reach.
    "picture-parts": [
        {"messages": [parts("user", None, "Which?"), parts("assistant", "red")], "images": ["red-disc.png"]},
        {"messages": [parts("user", "First ", None, "?"), parts("assistant", "a"), parts("user", None), parts("assistant", "b")],
         "images": ["blue-disc.png", "green-square.png"]},
        {"messages": [parts("user", "What is it?"), parts("assistant", "Nothing.")], "images": []},
        {"messages": [parts("user", "Say ", None), parts("assistant", "white")], "images": ["white-square.png"]},
        {"messages": [parts("user", "And?", None), parts("assistant", "blue")], "images": ["blue-disc.png"]},
    ],
    "picture-prompts": [
        {"prompt": [say("user", ask(name)[0])], "completion": [say("assistant", ask(name)[1])], "images": [name + ".png"]}
        for name in NAMES
    ]
    + [
        {"prompt": [say("user", "Both?")], "completion": [say("assistant", "yes")], "images": [NAMES[0] + ".png", NAMES[3] + ".png"]}
    ],
}
BASE = dict(
    per_device_train_batch_size=2, learning_rate=2e-3, max_steps=6, logging_steps=1, seed=42, lr_scheduler_type="linear"
)
CASES = {  # rows, main case, arguments
    "pictures-llava": ("pictures", "llava", BASE | dict(assistant_only_loss=True)),
    "pictures-idefics3": ("picture-parts", "idefics3", BASE | dict(max_steps=5)),
    "pictures-idefics3-accumulated": (
        "picture-parts",
        "idefics3",
        BASE | dict(per_device_train_batch_size=1, gradient_accumulation_steps=2, max_steps=4),
    ),
    "pictures-qwen2-vl": ("picture-prompts", "qwen2-vl", BASE | dict(weight_decay=0.1)),
    "pictures-llava-next": ("pictures", "llava-next", BASE | dict(max_steps=3)),
    # Two pictures of a row beside one; pictures of several sizes, filled up.
    "pictures-llava-onevision": ("picture-prompts", "llava-onevision", BASE | dict(max_steps=3)),
    "pictures-idefics2": ("picture-parts", "idefics2", BASE | dict(max_steps=5)),
}


def draw(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (colour, extents) in SHAPES.items():
        picture = Image.new("RGB", extents, (20, 20, 20))
        shape = ImageDraw.Draw(picture).ellipse if name.endswith("disc") else ImageDraw.Draw(picture).rectangle
        shape((4, 3, extents[0] - 4, extents[1] - 3), fill=colour)
        picture.save(folder / f"{name}.png", optimize=True)


def processor_of(model, name):
    if name.startswith("qwen2-vl"):
        return patch_blocks.processor_of(model)
    if grids.is_onevision(name):
        return patch_blocks.processor_of(model, vision_language.IN_ORDER, grids.FIELDS)
    processor = transformers.AutoProcessor.from_pretrained(model, backend="pil")
    processor.tokenizer.backend = "tokenizers"  # which the argument has changed too
    return processor


def data_of(rows, folder):
    paths = lambda names: [str(folder / each) for each in names]
    held = [row | ({"image": str(folder / row["image"])} if "image" in row else {"images": paths(row["images"])}) for row in rows]
    data = datasets.Dataset.from_list(held)
    kind = datasets.Image()
    return data.cast_column("image", kind) if "image" in rows[0] else data.cast_column("images", datasets.Sequence(kind))


def make_case(name, out, models):
    rows_name, family, arguments = CASES[name]
    start, folder = models / family / "model", out / name
    model = transformers.AutoModelForImageTextToText.from_pretrained(start, attn_implementation="eager", dtype=torch.float32)
    processor = processor_of(start, family)
    data = data_of(ROWS[rows_name], out / "rows")
    with tempfile.TemporaryDirectory() as work:
        given = arguments | dict(
            output_dir=work,
            **QUIET,
        )
        trainer = trl.SFTTrainer(
            model=model, args=trl.SFTConfig(**given), train_dataset=data, processing_class=processor
        )
        samples = []
        for row in trainer.train_dataset:
            made = trainer.data_collator([row])
            samples.append({key: made[key][0].tolist() for key in ("input_ids", "labels")})
        history = history_of(trainer)
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / "samples.jsonl", samples)
    write_json(folder / "log_history.json", history)
    write_json(folder / "training_args.json", arguments)
    about = {
        "name": name,
        "start": f"../../{family}/model",
        "rows": f"../rows/{rows_name}.jsonl",
        "tolerance": {"rtol": 2e-3, "atol": 2e-4},
    }
    write_json(folder / "case.json", about)


def make(out, models):
    """`out`: the folder sft, `models`: that of the main cases."""
    draw(out / "rows")
    for name, rows in ROWS.items():
        write_lines(out / "rows" / f"{name}.jsonl", rows)
    for name in CASES:
        make_case(name, out, models)
