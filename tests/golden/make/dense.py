# SPDX-License-Identifier: Apache-2.0
"""DPT, which says something of each pixel."""

import torch

from family import Family, names

DINOV2 = dict(
    model_type="dinov2",
    hidden_size=12,
    num_hidden_layers=3,
    num_attention_heads=3,
    mlp_ratio=2,
    image_size=28,
    patch_size=7,
    out_indices=[1, 2, 3],
    reshape_hidden_states=False,
)
DENSE = {
    "dpt": Family(
        dict(
            hidden_size=12,
            intermediate_size=16,
            num_hidden_layers=3,
            num_attention_heads=3,
            image_size=24,
            patch_size=8,
            backbone_out_indices=[0, 1, 2],
            neck_hidden_sizes=[6, 8, 10],
            reassemble_factors=[2, 1, 0.5],
            fusion_hidden_size=8,
            id2label={i: name for i, name in enumerate(["sky", "road", "car", "tree"])},
        ),
        names("DPT", "Model", "ForDepthEstimation", "ForSemanticSegmentation"),
        {
            "dpt-depth": ("DPTForDepthEstimation", "a layer reads the first token beside each other; resized positions"),
            "dpt-segmentation": ("DPTForSemanticSegmentation", "norms in the fusion; the loss of two heads; labels 255"),
        },
        sizes="none",
        heads={
            "DPTForSemanticSegmentation": dict(
                readout_type="ignore", use_batch_norm_in_fusion_residual=True, auxiliary_loss_weight=0.3, qkv_bias=False
            )
        },
        more={
            "dpt-dinov2": (
                "DPTForDepthEstimation",
                dict(backbone_config=DINOV2, readout_type="add", head_in_index=1, use_bias_in_fusion_residual=False),
                "a DINOv2 and pictures that are no square; the first token is added to the others",
            )
        },
    )
}


def inputs_of(name, class_name, config, random, floats):
    if name == "dpt-dinov2":
        return {"pixel_values": floats(2, 3, 28, 21)}
    inputs = {"pixel_values": floats(2, 3, 32, 32)}
    if class_name.endswith("SemanticSegmentation"):
        inputs["labels"] = torch.randint(0, len(config.id2label), (2, 32, 32), generator=random)
        inputs["labels"][1, :7] = config.semantic_loss_ignore_index
    return inputs
