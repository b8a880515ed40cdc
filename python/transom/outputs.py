# SPDX-License-Identifier: Apache-2.0
"""Results of a model: a dict, with attributes, and as a tuple."""
from collections import OrderedDict


class ModelOutput(OrderedDict):
    """Values by name; `output.logits`, `output["logits"]` and `output[0]` are the same. Names that the model did not
    give are None as attributes, as in Transformers."""

    _KNOWN = ("loss", "logits", "last_hidden_state", "pooler_output", "hidden_states", "attentions", "start_logits",
              "end_logits", "sequences", "image_embeds", "text_embeds", "logits_per_image", "logits_per_text",
              "past_key_values", "prediction_logits", "seq_relationship_logits", "encoder_last_hidden_state")

    def __getattr__(self, name):
        if name in self:
            return self[name]
        if name in ModelOutput._KNOWN:
            return None
        raise AttributeError(f"the output has no {name!r}; it has: {', '.join(self)}")

    def __getitem__(self, key):
        if isinstance(key, str):
            return super().__getitem__(key)
        return self.to_tuple()[key]

    def to_tuple(self):
        return tuple(self[name] for name in self.keys())
