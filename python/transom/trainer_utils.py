# SPDX-License-Identifier: Apache-2.0
"""What scripts exchange with a Trainer."""
import os
import random
import re
import sys
from typing import NamedTuple


class EvalPrediction:
    """What compute_metrics gets: arrays of numpy. A tuple (predictions, label_ids) as well."""

    def __init__(self, predictions, label_ids, inputs=None, losses=None):
        self.predictions, self.label_ids, self.inputs, self.losses = predictions, label_ids, inputs, losses
        self.elements = (predictions, label_ids) + ((inputs,) if inputs is not None else ())

    def __iter__(self):
        return iter(self.elements)

    def __getitem__(self, index):
        return self.elements[index]


class PredictionOutput(NamedTuple):
    predictions: object
    label_ids: object
    metrics: dict


class EvalLoopOutput(NamedTuple):
    predictions: object
    label_ids: object
    metrics: dict
    num_samples: int


class TrainOutput(NamedTuple):
    global_step: int
    training_loss: float
    metrics: dict


def set_seed(seed, deterministic=False):
    """Of Python, of numpy and torch where they are imported, and of generate()."""
    from .generation import seed_generation

    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    seed_generation(seed)


def enable_full_determinism(seed, **_):
    """Runs here always give the same bits for the same seed."""
    set_seed(seed)


def get_last_checkpoint(folder):
    """The checkpoint of the highest step in a directory; None without one."""
    found = [(int(match.group(1)), name) for name in os.listdir(folder)
             if (match := re.fullmatch(r"checkpoint-(\d+)", name)) and os.path.isdir(os.path.join(folder, name))]
    return os.path.join(folder, max(found)[1]) if found else None


def is_main_process(local_rank):
    return local_rank in (-1, 0)
