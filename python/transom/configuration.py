# SPDX-License-Identifier: Apache-2.0
"""config.json as an object with attributes."""
import copy
import json

from .hub import directory_of, hub_arguments
from .native import library


class PretrainedConfig:
    """The fields of a config.json. Fields that it lacks have Transformers' defaults where they are asked for here."""

    _DEFAULTS = {"output_hidden_states": False, "output_attentions": False, "return_dict": True, "use_cache": True,
                 "is_encoder_decoder": False, "problem_type": None, "pad_token_id": None, "eos_token_id": None,
                 "bos_token_id": None, "decoder_start_token_id": None, "forced_bos_token_id": None,
                 "finetuning_task": None, "task_specific_params": None, "tie_word_embeddings": True,
                 "torch_dtype": None, "dtype": None, "architectures": None, "name_or_path": "", "prefix": None}
    # n_embd and hidden_size ... are two names of one field, in this family or that.
    _OTHER_NAMES = (("hidden_size", "n_embd", "d_model", "dim"), ("num_hidden_layers", "n_layer", "num_layers",
                    "n_layers"), ("num_attention_heads", "n_head", "n_heads", "num_heads"),
                    ("max_position_embeddings", "n_positions", "n_ctx"))

    def __init__(self, **fields):
        object.__setattr__(self, "_fields", {})
        object.__setattr__(self, "_model", None)
        for name, value in fields.items():
            setattr(self, name, value)

    @classmethod
    def from_pretrained(cls, name, **keywords):
        hub, fields = hub_arguments(keywords)
        fields.pop("trust_remote_code", None)
        fields.pop("return_unused_kwargs", None)
        directory = directory_of(name, hub, weights=False)
        config = cls.from_dict(json.loads(library.read_config(directory)))
        config._fields["name_or_path"] = str(name)
        for field, value in fields.items():
            setattr(config, field, value)
        return config

    @classmethod
    def from_dict(cls, fields, **keywords):
        config = cls()
        config._fields.update(copy.deepcopy(fields))
        for field, value in keywords.items():
            setattr(config, field, value)
        return config

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        fields = self._fields
        if name == "id2label":
            return {int(key): value for key, value in self._labels().items()}
        if name == "label2id":
            return fields.get("label2id") or {value: int(key) for key, value in self._labels().items()}
        if name == "num_labels":
            return len(self._labels())
        if name == "use_return_dict":
            return True
        if name == "_name_or_path":
            return fields.get("name_or_path", "")
        if name in fields:
            value = fields[name]
            return PretrainedConfig.from_dict(value) if name.endswith("_config") and isinstance(value, dict) else value
        for names in PretrainedConfig._OTHER_NAMES:
            if name in names:
                for other in names:
                    if other in fields:
                        return fields[other]
        if name in PretrainedConfig._DEFAULTS:
            return PretrainedConfig._DEFAULTS[name]
        raise AttributeError(f"the configuration has no field {name!r}")

    def _labels(self):
        labels = self._fields.get("id2label")
        if labels:
            return labels
        return {str(i): f"LABEL_{i}" for i in range(int(self._fields.get("num_labels") or 2))}

    def __setattr__(self, name, value):
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        changed = {name: value}
        if name == "num_labels":
            value = int(value)
            if value == len(self._labels()) and "id2label" in self._fields:
                return
            names = {str(i): f"LABEL_{i}" for i in range(value)}
            changed = {"id2label": names, "label2id": {label: int(i) for i, label in names.items()}}
        elif name == "id2label":
            changed = {"id2label": {str(key): label for key, label in dict(value).items()}}
        elif name == "label2id":
            changed = {"label2id": {label: int(key) for label, key in dict(value).items()}}
        elif isinstance(value, PretrainedConfig):
            changed = {name: value.to_dict()}
        for field, new in changed.items():
            self._fields[field] = new
            if self._model is not None:
                self._model.set_config(field, json.dumps(_plain(new)))

    def __contains__(self, name):
        return name in self._fields

    def __eq__(self, other):
        return isinstance(other, PretrainedConfig) and self._fields == other._fields

    def __deepcopy__(self, memo):
        return PretrainedConfig.from_dict(self._fields)

    def __reduce__(self):
        return PretrainedConfig.from_dict, (self._fields,)

    def get(self, name, otherwise=None):
        return getattr(self, name, otherwise)

    def update(self, fields):
        for name, value in fields.items():
            setattr(self, name, value)

    def to_dict(self):
        return copy.deepcopy(self._fields)

    def to_json_string(self, use_diff=True):
        return json.dumps(_plain(self._fields), indent=2, sort_keys=True) + "\n"

    def save_pretrained(self, directory, **_):
        import os

        os.makedirs(directory, exist_ok=True)
        fields = {name: value for name, value in self._fields.items() if name != "name_or_path"}
        path = os.path.join(directory, "config.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(json.dumps(_plain(fields), indent=2, sort_keys=True) + "\n")
        os.replace(path + ".new", path)

    def __repr__(self):
        return f"{type(self).__name__} {self.to_json_string()}"


def _plain(value):
    """What json can write: types of numpy and torch by their values or names."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item"):
        return value.item()
    return str(value).replace("torch.", "")


PreTrainedConfig = PretrainedConfig


class AutoConfig(PretrainedConfig):
    """The configuration of any model."""

    def __new__(cls, *_, **__):
        return PretrainedConfig.__new__(PretrainedConfig)

    @classmethod
    def from_pretrained(cls, name, **keywords):
        return PretrainedConfig.from_pretrained(name, **keywords)

    @classmethod
    def for_model(cls, model_type, **fields):
        return PretrainedConfig(model_type=model_type, **fields)
