# SPDX-License-Identifier: Apache-2.0
"""Transformers' classes of models, as names of the Auto classes: the configuration says which architecture it is."""
from . import modeling
from .native import library


def __getattr__(name):
    head = library.head_of_class(name)
    if head is None:
        raise AttributeError(name)
    tasks, writes = head
    if writes and "automatic-speech-recognition" in tasks:
        return modeling.AutoModelForSpeechSeq2Seq
    autos = {}
    for auto in vars(modeling).values():
        if isinstance(auto, type) and issubclass(auto, modeling.PreTrainedModel):
            autos.setdefault(auto._task, auto)
    for task in tasks:
        if task in autos:
            return autos[task]
    return modeling._auto(name, tasks[0], name) if tasks else modeling.PreTrainedModel
