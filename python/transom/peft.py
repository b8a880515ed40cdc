# SPDX-License-Identifier: Apache-2.0
"""Adapters with PEFT's names."""
import json

from .errors import UnsupportedError
from .modeling import PreTrainedModel


class TaskType:
    SEQ_CLS, TOKEN_CLS, CAUSAL_LM, SEQ_2_SEQ_LM = "SEQ_CLS", "TOKEN_CLS", "CAUSAL_LM", "SEQ_2_SEQ_LM"
    QUESTION_ANS, FEATURE_EXTRACTION = "QUESTION_ANS", "FEATURE_EXTRACTION"


class LoraConfig:
    """The fields of adapter_config.json; unknown ones and those that are not carried out are refused by name."""

    peft_type = "LORA"

    def __init__(self, **fields):
        fields.pop("inference_mode", None)
        self.__dict__.update({name: value for name, value in fields.items() if value is not None})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def to_dict(self):
        return {name: sorted(value) if isinstance(value, set) else getattr(value, "value", value)
                for name, value in self.__dict__.items()}


class _OtherConfig(LoraConfig):
    peft_type = None

    def to_dict(self):
        return {"peft_type": self.peft_type, **super().to_dict()}


class IA3Config(_OtherConfig):
    peft_type = "IA3"


class AdaLoraConfig(_OtherConfig):
    peft_type = "ADALORA"


class VeraConfig(_OtherConfig):
    peft_type = "VERA"


class LoHaConfig(_OtherConfig):
    peft_type = "LOHA"


class LoKrConfig(_OtherConfig):
    peft_type = "LOKR"


class LNTuningConfig(_OtherConfig):
    peft_type = "LN_TUNING"


class TrainableTokensConfig(_OtherConfig):
    peft_type = "TRAINABLE_TOKENS"


class PromptTuningConfig(_OtherConfig):
    peft_type = "PROMPT_TUNING"


class PrefixTuningConfig(_OtherConfig):
    peft_type = "PREFIX_TUNING"


class PromptEncoderConfig(_OtherConfig):
    peft_type = "P_TUNING"


class PeftModel(PreTrainedModel):
    """A model with adapters, which alone are trained and saved."""

    @classmethod
    def from_pretrained(cls, model, model_id, is_trainable=False, **_):
        return PreTrainedModel.from_pretrained(model_id, keep_adapters=True)

    def print_trainable_parameters(self):
        trained, everything = self._native.trained_and_all()
        print(f"trainable params: {trained:,} || all params: {everything:,} || trainable%: "
              f"{100 * trained / everything:.4f}")

    def get_nb_trainable_parameters(self):
        return self._native.trained_and_all()

    def merge_and_unload(self, *_, **__):
        """A model with the adapters' products in its weights."""
        import tempfile

        if not self._directory:
            raise UnsupportedError("merge_and_unload(): the model was made without files; save it and use "
                                   "`transom merge`")
        with tempfile.TemporaryDirectory(prefix="transom-") as directory:
            self.save_pretrained(directory)
            _name_base(directory, self._directory)
            return PreTrainedModel.from_pretrained(directory)

    def get_base_model(self):
        return self


def _name_base(directory, base):
    import os

    path = os.path.join(directory, "adapter_config.json")
    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    fields["base_model_name_or_path"] = os.path.abspath(base)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(fields, file)


def get_peft_model(model, peft_config, adapter_name="default", seed=42, **_):
    """Gives the model new adapters; the model itself is changed, as in PEFT."""
    if not isinstance(peft_config, LoraConfig):
        raise UnsupportedError(f"get_peft_model: expected a configuration of transom.peft, found "
                               f"{type(peft_config).__name__}")
    fields = peft_config.to_dict()
    fields.setdefault("base_model_name_or_path", model.name_or_path)
    model._native.add_adapters(json.dumps(fields), seed)
    model.__class__ = PeftModel
    model.peft_config = {adapter_name: peft_config}
    return model
