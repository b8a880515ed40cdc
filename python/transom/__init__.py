# SPDX-License-Identifier: Apache-2.0
"""Transom with the names of Transformers: change the import, keep the script.

    from transom import AutoTokenizer, AutoModelForSequenceClassification, Trainer, TrainingArguments, pipeline

Names are imported when they are first used, so that `import transom` takes no time.
"""
import importlib

from ._names import MODULE_OF_NAME, PARTNER_MODULES

__version__ = "0.1.0"
__all__ = sorted(MODULE_OF_NAME)


def __getattr__(name):
    module = MODULE_OF_NAME.get(name)
    if module is not None:
        value = getattr(importlib.import_module("." + module, __name__), name)
        globals()[name] = value
        return value
    if name in ("utils", "trainer_utils", "trainer_callback", "data", "peft", *PARTNER_MODULES):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'transom' has no attribute {name!r}")


def __dir__():
    return sorted(set(globals()) | set(MODULE_OF_NAME))
