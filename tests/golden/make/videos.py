# SPDX-License-Identifier: Apache-2.0
"""VideoMAE: videos of four frames of eight pixels a side, cut into tubes of two frames."""

import torch
from common import generator
from family import Family, names

VIDEOMAE = dict(
    image_size=8,
    patch_size=4,
    num_frames=4,
    tubelet_size=2,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    decoder_hidden_size=12,
    decoder_num_hidden_layers=1,
    decoder_num_attention_heads=3,
    decoder_intermediate_size=20,
)

VIDEOS = {
    "videomae": Family(
        VIDEOMAE,
        names("VideoMAE", "Model", "ForVideoClassification", "ForPreTraining"),
        {
            "videomae-video-classification": ("VideoMAEForVideoClassification", "a norm over the mean of all tubes"),
            "videomae-pre-training": ("VideoMAEForPreTraining", "hidden tubes are made up, in deviations of their own"),
        },
        sizes="none",
        more={
            "videomae-first-token": (
                "VideoMAEForVideoClassification",
                dict(use_mean_pooling=False, qv_bias=False, num_hidden_layers=1),
                "no biases; classes are read from the first tube",
            ),
            "videomae-plain-pixels": (
                "VideoMAEForPreTraining",
                dict(norm_pix_loss=False, num_hidden_layers=1),
                "hidden tubes are made up as colours from 0 to 1",
            ),
        },
    )
}


def inputs_of(name, class_name, config):
    random = generator("inputs of " + name)
    video = torch.randn(2, config.num_frames, 3, config.image_size, config.image_size, generator=random)
    inputs = {"pixel_values": video}
    if class_name.endswith("VideoClassification"):
        inputs["labels"] = torch.randint(0, len(config.id2label), (2,), generator=random)
    if class_name.endswith("PreTraining"):  # as many in each row
        tubes = config.num_frames // config.tubelet_size * (config.image_size // config.patch_size) ** 2
        order = torch.stack([torch.randperm(tubes, generator=random) for _ in range(2)])
        inputs["bool_masked_pos"] = order < tubes * 5 // 8
    return inputs
