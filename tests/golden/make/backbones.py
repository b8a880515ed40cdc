# SPDX-License-Identifier: Apache-2.0
"""Networks that see pictures of any kind, with a head over them or alone."""

import torch

from family import Family, names

BACKBONES = {
    "regnet": Family(
        dict(
            embedding_size=6,
            hidden_sizes=[10, 12],
            depths=[2, 1],
            groups_width=4,
            layer_type="y",
        ),
        names("RegNet", "Model", "ForImageClassification"),
        sizes="none",
        heads={
            "RegNetModel": dict(
                hidden_sizes=[8, 12, 18],
                depths=[1, 2, 1],
                groups_width=5,
                layer_type="x",
                hidden_act="silu",
                downsample_in_first_stage=False,
            )
        },
    ),
}
EXTENTS = {"regnet": (29, 20)}


def inputs_of(name, family_name, class_name, config, integers, floats):
    height, width = EXTENTS[family_name]
    inputs = {"pixel_values": floats(2, 3, height, width)}
    if class_name.endswith("ImageClassification"):
        inputs["labels"] = integers(len(config.id2label), (2,))
    return inputs
