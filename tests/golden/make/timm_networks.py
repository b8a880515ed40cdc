# SPDX-License-Identifier: Apache-2.0
"""Networks of timm in Transformers' wrapper, made small by arguments."""

import inspect

import timm
import timm.models.efficientnet
import timm.models.mobilenetv3
from family import Family

CLASSES = ["TimmWrapperForImageClassification", "TimmWrapperModel"]
CLASSIFIER, BODY = CLASSES

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
