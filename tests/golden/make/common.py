# SPDX-License-Identifier: Apache-2.0
"""What all parts of make_golden.py share: where things are, seeds, and how files are written."""

import json
import os
import pathlib
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # sums of trainers in one order
import numpy
import torch
import transformers

from seeds import seed_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
GOLDEN = HERE.parent
TEXTS = json.loads((HERE / "texts.json").read_text())["texts"]  # hard cases for tokenizers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True, warn_only=True)


def generator(name):
    return torch.Generator().manual_seed(seed_of(name))


def rounded(value, digits=9):
    """Numbers of a JSON file with as many digits as float32 has."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item, digits) for item in value]
    if isinstance(value, (numpy.floating, numpy.integer)):
        return rounded(value.item(), digits)
    return value


def write_json(path, value):
    """Lists of numbers on one line, the rest indented."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(value, 0) + "\n")


def _text(value, depth):
    flat = json.dumps(value, ensure_ascii=True)
    if not isinstance(value, (dict, list)) or len(flat) + depth < 100 or _plain(value):
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{pad}{json.dumps(str(key))}: {_text(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + " " * depth + "}"
    return "[\n" + ",\n".join(pad + _text(item, depth + 1) for item in value) + "\n" + " " * depth + "]"


def _plain(value):
    return isinstance(value, list) and all(not isinstance(item, (dict, list)) for item in value)


def write_lines(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n" for value in values))
