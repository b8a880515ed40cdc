# SPDX-License-Identifier: Apache-2.0
"""Networks of timm in Transformers' wrapper, made small by arguments."""

import inspect

import timm
import timm.models.efficientnet
import timm.models.mobilenetv3
from family import Family

CLASSES = ["TimmWrapperForImageClassification", "TimmWrapperModel"]
CLASSIFIER, BODY = CLASSES

SMALL_VIT = dict(img_size=16, patch_size=8, embed_dim=8, depth=2, num_heads=2, mlp_ratio=2)
SMALL_FASTVIT = dict(layers=[1, 1, 1, 1], embed_dims=[4, 8, 8, 32], mlp_ratios=[2, 1, 1.5, 1], layer_scale_init_value=0.5)
SMALL_CONVNEXT = dict(depths=[2, 1, 1, 1], dims=[4, 8, 8, 12])
# Grids of 7 by 9, 4 by 5 and 2 by 3 places: windows are padded, shifted along one axis alone, and cut to the grid.
SMALL_SWIN = dict(
    img_size=[28, 36], embed_dim=4, depths=[2, 2, 2], num_heads=[2, 2, 4], window_size=4, mlp_ratio=2, drop_path_rate=0
)

# name of the case -> (class, fields, what is special). A picture of 33 pixels a side stays odd to the last map but one.
CASES = {
    "mobilenetv3-timm-image-classification": (
        CLASSIFIER,
        dict(
            architecture="mobilenetv3_small_100",
            model_args=dict(channel_multiplier=0.1, depth_multiplier=0.1, num_features=16),
        ),
        "MobileNetV3 of timm: hard swish, hard sigmoid, the mean before the last convolution",
    ),
    "efficientnetv2-timm-image-classification": (
        CLASSIFIER,
        dict(
            architecture="tf_efficientnetv2_b0",
            model_args=dict(channel_multiplier=0.1, depth_multiplier=0.1, num_features=16),
        ),
        "EfficientNetV2 of timm with TensorFlow's padding and epsilon: fused blocks",
    ),
    "efficientnet-timm-model": (
        BODY,
        dict(
            architecture="efficientnet_b0",
            model_args=dict(channel_multiplier=0.1, depth_multiplier=0.1, num_features=16),
        ),
        "EfficientNet of timm: squeezing of a part of the channels before the block",
    ),
    "fastvit-timm-image-classification": (
        CLASSIFIER,
        dict(architecture="fastvit_sa12", model_args=SMALL_FASTVIT),
        "FastViT of timm as it learns: branches that are added; attention in the last stage",
    ),
    "fastvit-fused-timm-image-classification": (
        CLASSIFIER,
        dict(architecture="fastvit_t8", model_args=SMALL_FASTVIT | dict(layers=[2, 1, 1, 1], inference_mode=True, cls_ratio=1)),
        "FastViT of timm as it is used: one convolution in place of the branches",
    ),
    "fastvit-mobileclip-timm-model": (
        BODY,
        dict(architecture="fastvit_mci0", model_args=SMALL_FASTVIT | dict(layers=[2, 1, 1, 1])),
        "MobileCLIP's tower of images: squeezing and an activation where the map shrinks",
    ),
    "fastvit-mobileclip2-timm-model": (
        BODY,
        dict(
            architecture="fastvit_mci3",
            model_args=dict(layers=[1] * 5, embed_dims=[4, 8, 8, 32, 32], mlp_ratios=[1] * 5, layer_scale_init_value=None),
        ),
        "MobileCLIP2's tower of images: five stages, two of them of attention with norms of each place",
    ),
    "vit-timm-image-classification": (
        CLASSIFIER,
        dict(architecture="vit_tiny_patch16_224", model_args=SMALL_VIT),
        "ViT of timm: one matrix for queries, keys and values",
    ),
    "deit3-timm-image-classification": (
        CLASSIFIER,
        dict(
            architecture="deit3_small_patch16_224",
            model_args=SMALL_VIT | dict(img_size=[16, 24], init_values=0.5, global_pool="avg", qkv_bias=False),
        ),
        "DeiT III of timm: scaled branches, a class token without a place, the norm behind the mean",
    ),
    "deit-timm-model": (
        BODY,
        dict(architecture="deit_tiny_patch16_224", model_args=SMALL_VIT),
        "DeiT of timm without its head",
    ),
    "convnext-timm-image-classification": (
        CLASSIFIER,
        dict(architecture="convnext_large_mlp", model_args=SMALL_CONVNEXT | dict(head_hidden_size=6, ls_init_value=0.5)),
        "ConvNeXt of timm, with a hidden layer before the classes",
    ),
    "convnextv2-timm-image-classification": (
        CLASSIFIER,
        dict(architecture="convnextv2_atto", model_args=SMALL_CONVNEXT),
        "ConvNeXt V2 of timm: channels weighed by how strong they are, layers of channels as convolutions",
    ),
    "convnext-normed-first-timm-image-classification": (
        CLASSIFIER,
        dict(architecture="convnext_tiny_hnf", model_args=SMALL_CONVNEXT | dict(global_pool="catavgmax", patch_size=2)),
        "ConvNeXt of timm with its norm before two ways of pooling, and patches of two pixels",
    ),
    "convnext-overlapping-timm-model": (
        BODY,
        dict(
            architecture="convnext_atto_ols",
            model_args=SMALL_CONVNEXT
            | dict(dims=[16, 8, 8, 12], kernel_sizes=[7, 5, 5, 3], conv_bias=False, norm_eps=1e-5, act_layer="gelu_tanh"),
        ),
        "ConvNeXt of timm with a stem of two convolutions that overlap",
    ),
    "swin-timm-image-classification": (
        CLASSIFIER,
        dict(architecture="swin_tiny_patch4_window7_224", model_args=SMALL_SWIN),
        "Swin of timm: windows as large as the grid lets them be, padded behind the shift",
    ),
    "swin-windows-timm-model": (
        BODY,
        dict(
            architecture="swin_s3_tiny_224",
            model_args=SMALL_SWIN | dict(img_size=[24, 36], window_size=[2, [3, 4], 7], qkv_bias=False, global_pool="max"),
        ),
        "Swin of timm with windows of each stage, and without its head",
    ),
}

TIMM = {
    "timm_wrapper": Family(
        dict(
            architecture="resnext50_32x4d",
            model_args=dict(base_width=16, cardinality=4, channels=[8, 8, 12, 16], layers=[1, 1, 1, 1], stem_width=8),
        ),
        CLASSES,
        {
            "resnext-timm-image-classification": (
                CLASSIFIER,
                "grouped convolutions; names of timm",
            )
        },
        sizes="none",
        more=CASES,
    )
}


def side_of(name):
    """Of a picture, or its height and width."""
    if name.startswith(("vit", "deit", "swin")):
        return CASES[name][1]["model_args"]["img_size"]
    return 33 if name in CASES else 40


def small_networks():
    """Multipliers and features of mobile networks from `model_args`, which timm's names fix."""
    given = {}
    plain = timm.create_model

    def create_model(name, *rest, **kwargs):
        given.clear()
        given.update({key: kwargs.pop(key) for key in MULTIPLIERS if key in kwargs})
        return plain(name, *rest, **kwargs)

    timm.create_model = create_model
    for module, create in ((timm.models.mobilenetv3, "_create_mnv3"), (timm.models.efficientnet, "_create_effnet")):
        setattr(module, create, with_given(getattr(module, create), given, ("num_features",)))
        for key in [key for key in vars(module) if key.startswith(("_gen_mobilenet", "_gen_efficientnet"))]:
            setattr(module, key, with_given(getattr(module, key), given, MULTIPLIERS[:2]))


MULTIPLIERS = ("channel_multiplier", "depth_multiplier", "num_features")


def with_given(function, given, keys):
    """The function with other values of some arguments, which its callers may give by place."""
    names = list(inspect.signature(function).parameters)

    def changed(*values, **kwargs):
        kwargs = dict(zip(names, values)) | kwargs
        return function(**kwargs | {key: given[key] for key in keys if key in given})

    return changed


small_networks()
