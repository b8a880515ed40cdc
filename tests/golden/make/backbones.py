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
        more={
            "regnet-other-image-classification": (
                "RegNetForImageClassification",
                dict(hidden_sizes=[6, 9], depths=[1, 2], groups_width=3, layer_type="x", hidden_act="silu"),
                "no weights of channels; groups of three channels",
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
    "swinv2": Family(
        dict(
            image_size=24,
            patch_size=2,
            embed_dim=8,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=5,
            pretrained_window_sizes=[4, 0],
            encoder_stride=4,
            mlp_ratio=2.0,
            drop_path_rate=0.0,
        ),
        names("Swinv2", "Model", "ForImageClassification", "ForMaskedImageModeling"),
        sizes="none",
        heads={
            "Swinv2Model": dict(
                image_size=[20, 28],
                embed_dim=6,
                depths=[2, 1],
                num_heads=[1, 3],
                window_size=8,
                pretrained_window_sizes=[0, 3],
                qkv_bias=False,
                hidden_act="relu",
                layer_norm_eps=0.01,
            )
        },
    ),
    "beit": Family(
        dict(
            hidden_size=12,
            intermediate_size=16,
            num_attention_heads=3,
            image_size=12,
            patch_size=4,
            vocab_size=15,
            drop_path_rate=0.0,
            use_mask_token=True,
            use_relative_position_bias=True,
            layer_scale_init_value=0.7,
            num_hidden_layers=2,
        ),
        names("Beit", "Model", "ForImageClassification", "ForMaskedImageModeling"),
        sizes="none",
        heads={
            "BeitModel": dict(
                use_relative_position_bias=False,
                use_shared_relative_position_bias=True,
                use_absolute_position_embeddings=True,
                use_mean_pooling=False,
                layer_scale_init_value=0.0,
                hidden_act="relu",
            ),
            "BeitForMaskedImageModeling": dict(use_shared_relative_position_bias=True, image_size=16, hidden_size=9),
        },
    ),
    "dinov3_vit": Family(
        dict(
            hidden_size=16,
            intermediate_size=20,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=16,
            patch_size=4,
            num_register_tokens=3,
            layerscale_value=0.7,
            use_gated_mlp=True,
            rope_theta=50.0,
        ),
        names("DINOv3ViT", "Model"),
        sizes="none",
        more={
            "dinov3-vit-plain-model": (
                "DINOv3ViTModel",
                dict(
                    num_register_tokens=1,
                    use_gated_mlp=False,
                    hidden_size=12,
                    num_attention_heads=1,
                    hidden_act="relu",
                    query_bias=False,
                    key_bias=True,
                    value_bias=False,
                    proj_bias=False,
                    mlp_bias=False,
                    patch_size=5,
                    layer_norm_eps=0.01,
                ),
                "one token for notes, no gate, other biases, rows of three patches beside a rest",
            )
        },
    ),
}
EXTENTS = {"regnet": (29, 20), "mobilenet_v2": (70, 66), "beit": (16, 12), "dinov3_vit": (12, 18)}


def inputs_of(name, family_name, class_name, config, integers, floats):
    side = getattr(config, "image_size", None)
    own = side if isinstance(side, list) else (side, side)
    height, width = own if class_name.endswith("MaskedImageModeling") else EXTENTS.get(family_name, own)
    inputs = {"pixel_values": floats(2, 3, height, width)}
    if class_name.endswith("SemanticSegmentation"):
        inputs["labels"] = integers(len(config.id2label), (2, height // 10, 1)).repeat_interleave(10, 1).repeat(1, 1, width)
        inputs["labels"][1, :7] = config.semantic_loss_ignore_index
    elif class_name.endswith("MaskedImageModeling"):
        inputs["bool_masked_pos"] = integers(10, (2, (height // config.patch_size) * (width // config.patch_size))) < 4
        if family_name == "beit":  # which tells codes
            inputs["labels"] = integers(config.vocab_size, (int(inputs["bool_masked_pos"].sum()),))
    elif class_name.endswith("ImageClassification"):
        inputs["labels"] = integers(len(config.id2label), (2,))
    return inputs
