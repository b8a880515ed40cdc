# SPDX-License-Identifier: Apache-2.0
"""What the records of architectures are written with."""

import dataclasses


@dataclasses.dataclass
class Family:
    config: dict  # fields of the configuration, besides the sizes that `sizes` gives
    classes: list  # all classes of the family
    main: dict = dataclasses.field(default_factory=dict)  # name of the case -> (class, what is special)
    tokenizer: str | None = None
    sizes: str = "encoder"  # how the fields for widths and depths are called
    heads: dict = dataclasses.field(default_factory=dict)  # fields that only some classes have
    model_type: str | None = None  # where it is not the name here: of a class with a second case
    more: dict = dataclasses.field(default_factory=dict)  # further main cases -> (class, other fields, what is special)
    small: dict = dataclasses.field(default_factory=dict)  # cases of 60 words that write, of the same form


def names(prefix, *heads):
    return [prefix + head for head in heads]


SEQUENCE, TOKENS, ANSWERS, CHOICE = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
MASKED, CAUSAL = "ForMaskedLM", "ForCausalLM"

ROPE = dict(rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})
