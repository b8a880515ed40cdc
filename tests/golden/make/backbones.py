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
    "mobilenet_v2": Family(
        dict(depth_multiplier=0.13, depth_divisible_by=2, min_depth=4, expand_ratio=1.5, finegrained_output=False),
        names("MobileNetV2", "Model", "ForImageClassification", "ForSemanticSegmentation"),
        sizes="none",
        heads={
            "MobileNetV2Model": dict(
                depth_multiplier=0.1,
                min_depth=3,
                depth_divisible_by=3,
                output_stride=8,
                first_layer_is_expansion=False,
                tf_padding=False,
                hidden_act="relu",
                layer_norm_eps=0.01,
            ),
            "MobileNetV2ForSemanticSegmentation": dict(
                depth_multiplier=0.06, output_stride=16, id2label={i: name for i, name in enumerate(["sky", "road", "car"])}
            ),
        },
    ),
}
EXTENTS = {"regnet": (29, 20), "mobilenet_v2": (70, 66)}


def inputs_of(name, family_name, class_name, config, integers, floats):
    height, width = EXTENTS[family_name]
    inputs = {"pixel_values": floats(2, 3, height, width)}
    if class_name.endswith("SemanticSegmentation"):
        inputs["labels"] = integers(len(config.id2label), (2, height // 10, 1)).repeat_interleave(10, 1).repeat(1, 1, width)
        inputs["labels"][1, :7] = config.semantic_loss_ignore_index
    elif class_name.endswith("ImageClassification"):
        inputs["labels"] = integers(len(config.id2label), (2,))
    return inputs
