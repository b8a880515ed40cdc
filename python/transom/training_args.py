# SPDX-License-Identifier: Apache-2.0
"""TrainingArguments: the names, defaults and checks are those of `transom train`."""
import json

from .native import library


class _Words(str):
    """A word with Transformers' `.value`."""

    @property
    def value(self):
        return str(self)


class IntervalStrategy:
    NO, STEPS, EPOCH = _Words("no"), _Words("steps"), _Words("epoch")


class SchedulerType:
    LINEAR, COSINE, POLYNOMIAL, CONSTANT = map(_Words, ("linear", "cosine", "polynomial", "constant"))
    COSINE_WITH_RESTARTS, CONSTANT_WITH_WARMUP = map(_Words, ("cosine_with_restarts", "constant_with_warmup"))
    INVERSE_SQRT, REDUCE_ON_PLATEAU = map(_Words, ("inverse_sqrt", "reduce_lr_on_plateau"))


# What belongs to Python's side.
_OWN = {"include_for_metrics": (), "include_inputs_for_metrics": False, "batch_eval_metrics": False,
        "predict_with_generate": False, "generation_max_length": None, "generation_num_beams": None,
        "generation_config": None, "sortish_sampler": False, "push_to_hub": False, "hub_model_id": None,
        "overwrite_output_dir": False, "dataloader_num_workers": 0, "dataloader_pin_memory": True, "local_rank": -1,
        "use_ipex": False, "do_lower_case": False}


def _plain(value):
    value = getattr(value, "value", value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.item() if hasattr(value, "item") else str(value)


class TrainingArguments:
    """Keyword arguments as Transformers' TrainingArguments takes them; older spellings too."""

    def __init__(self, output_dir=None, **arguments):
        own = dict(_OWN)
        given = {} if output_dir is None else {"output_dir": str(output_dir)}
        for name, value in arguments.items():
            if name in _OWN:
                own[name] = value
            elif name == "evaluation_strategy":
                given["eval_strategy"] = _plain(value)
            elif name == "no_cuda":
                given["use_cpu"] = bool(value)
            elif name == "group_by_length":
                if value:
                    given["train_sampling_strategy"] = "group_by_length"
            elif name == "report_to":
                given[name] = [] if value in (None, "none", ["none"]) else _plain(value)
            elif value is not None:
                given[name] = _plain(value)
        if own["push_to_hub"]:
            from .errors import UnsupportedError

            raise UnsupportedError("push_to_hub: Transom does not upload; push the output directory with the `hf` "
                                   "program")
        text, notes = library.training_arguments(json.dumps(given))
        self.__dict__.update(json.loads(text))
        self.__dict__.update(own)
        self._given = given
        for note in notes:
            from .logging import get_logger

            get_logger(__name__).info(note)

    # ---- names that scripts read

    @property
    def evaluation_strategy(self):
        return self.eval_strategy

    @property
    def train_batch_size(self):
        return self.per_device_train_batch_size

    @property
    def eval_batch_size(self):
        return self.per_device_eval_batch_size

    n_gpu = 0
    world_size = 1
    process_index = local_process_index = 0
    parallel_mode = _Words("not_distributed")
    should_log = should_save = True
    place_model_on_device = False

    @property
    def device(self):
        import sys

        torch = sys.modules.get("torch")
        return torch.device("cpu") if torch is not None else library.device_name()

    def get_process_log_level(self):
        import logging

        return {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}.get(self.log_level,
                                                                                       logging.WARNING)

    def main_process_first(self, *_, **__):
        import contextlib

        return contextlib.nullcontext()

    def to_dict(self):
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def to_json_string(self):
        return json.dumps(self.to_dict(), indent=2, default=str)

    def to_native(self):
        """The JSON that the library reads, with what was assigned since."""
        fields = {name: value for name, value in self.to_dict().items() if name not in _OWN}
        return json.dumps({name: _plain(value) for name, value in fields.items() if value is not None})

    def __repr__(self):
        return f"{type(self).__name__}({self.to_json_string()})"


class Seq2SeqTrainingArguments(TrainingArguments):
    """predict_with_generate, generation_max_length and generation_num_beams besides."""
