# SPDX-License-Identifier: Apache-2.0
"""Detectors that look at a few places of several maps."""

import torch

from family import Family, names

FIVE = {i: name for i, name in enumerate(["cat", "dog", "boat", "tree", "car"])}

# Two maps of a ResNet of basic layers. No noisy queries, which are drawn.
TWO_MAPS = dict(
    backbone_config=dict(
        model_type="rt_detr_resnet",
        layer_type="basic",
        depths=[1, 1],
        hidden_sizes=[6, 8],
        embedding_size=6,
        out_indices=[1, 2],
    ),
    encoder_in_channels=[6, 8],
    encoder_hidden_dim=8,
    encoder_attention_heads=2,
    encoder_ffn_dim=12,
    encode_proj_layers=[1],
    hidden_expansion=0.5,
    feat_strides=[4, 8],
    d_model=10,
    decoder_in_channels=[8, 8],
    decoder_layers=2,
    decoder_attention_heads=2,
    decoder_ffn_dim=12,
    decoder_n_points=2,
    num_feature_levels=2,
    num_queries=3,
    num_denoising=0,
    id2label=FIVE,
)
# Norms of the ResNet are trained; anchors are of one extent of pictures. The noise of the noisy queries is too small to
# be seen.
NOISY = dict(
    freeze_backbone_batch_norms=False,
    encoder_layers=2,
    decoder_layers=1,
    encoder_activation_function="relu",
    decoder_activation_function="gelu",
    encode_proj_layers=[0],
    positional_encoding_temperature=100,
    anchor_image_size=[40, 32],
    num_denoising=7,
    label_noise_ratio=0.0,
    box_noise_scale=1e-12,
    initializer_bias_prior_prob=0.1,
    layer_norm_eps=1e-4,
    batch_norm_eps=1e-3,
)
# A third map that is made of the coarser of two, or of three maps of the ResNet.
MORE_MAPS = dict(num_feature_levels=3, learn_initial_query=True, encode_proj_layers=[0, 1])
THREE_MAPS = dict(
    backbone_config=TWO_MAPS["backbone_config"]
    | dict(depths=[1, 1, 1], hidden_sizes=[6, 6, 8], out_indices=None, out_features=["stage1", "stage2", "stage3"]),
    encoder_in_channels=[6, 6, 8],
    decoder_in_channels=[8, 8, 8],
    feat_strides=[4, 8, 16],
    anchor_image_size=[32, 32],
    num_feature_levels=3,
    decoder_n_levels=3,
)
WEIGHTS = dict(
    matcher_alpha=0.4,
    matcher_gamma=1.5,
    matcher_class_cost=1.0,
    matcher_bbox_cost=3.0,
    matcher_giou_cost=1.0,
    focal_loss_alpha=0.5,
    focal_loss_gamma=1.0,
    weight_loss_vfl=2.0,
    weight_loss_bbox=3.0,
    weight_loss_giou=1.0,
)

DEFORMABLE = {
    "rt_detr": Family(
        TWO_MAPS,
        names("RTDetr", "Model", "ForObjectDetection"),
        {"rt-detr": ("RTDetrForObjectDetection", "basic layers with frozen norms; pictures that are no square")},
        sizes="none",
        heads={"RTDetrModel": MORE_MAPS},
        more={
            "rt-detr-noised": (
                "RTDetrForObjectDetection",
                NOISY | WEIGHTS,
                "trained norms; noisy queries in training; anchors of one extent; other weights of costs and losses",
            )
        },
    ),
    "rt_detr_v2": Family(
        TWO_MAPS | dict(decoder_n_levels=2, decoder_offset_scale=0.8),
        names("RTDetrV2", "Model", "ForObjectDetection"),
        {"rt-detr-v2": ("RTDetrV2ForObjectDetection", "places drawn in by a factor of the configuration")},
        sizes="none",
        heads={"RTDetrV2Model": THREE_MAPS},
        more={
            "rt-detr-v2-discrete": (
                "RTDetrV2ForObjectDetection",
                dict(
                    backbone_config=dict(
                        model_type="rt_detr_resnet",
                        depths=[1, 1],
                        hidden_sizes=[8, 12],
                        embedding_size=6,
                        hidden_act="silu",
                        out_features=["stage1", "stage2"],
                    ),
                    encoder_in_channels=[8, 12],
                    decoder_method="discrete",
                    use_focal_loss=False,
                    auxiliary_loss=False,
                    learn_initial_query=True,
                    eval_size=32,
                    hidden_expansion=1.0,
                    activation_function="gelu",
                    with_box_refine=False,
                ),
                "bottlenecks; values at the nearest places; learned queries; the last layer's loss alone",
            )
        },
    ),
}


# Transformers 5.24 repeats the module of learned queries rather than its weights, and fails.
torch.nn.Embedding.tile = lambda module, times: module.weight.tile(times)


def extents_of(config):
    """Height and width of pictures."""
    return config.anchor_image_size or [32, 40]
