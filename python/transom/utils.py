# SPDX-License-Identifier: Apache-2.0
"""What example scripts import from transformers.utils."""
from . import logging  # noqa: F401
from .outputs import ModelOutput  # noqa: F401


def check_min_version(version):
    """Scripts ask for a version of Transformers."""


def send_example_telemetry(*_, **__):
    """Nothing is sent anywhere."""


def is_torch_available():
    import importlib.util

    return importlib.util.find_spec("torch") is not None


class PaddingStrategy:
    LONGEST, MAX_LENGTH, DO_NOT_PAD = "longest", "max_length", "do_not_pad"


class TensorType:
    PYTORCH, NUMPY = "pt", "np"
