# SPDX-License-Identifier: Apache-2.0
"""LLaVA-NeXT: a picture and a grid of its parts."""

import torch
from transformers.image_processing_utils import select_best_resolution

from family import Family
from vocabularies import BATCH

IMAGE = "<image>"
GRIDS = {
    "llava_next": Family(
        {},
        ["LlavaNextModel", "LlavaNextForConditionalGeneration"],
        {"llava-next": ("LlavaNextForConditionalGeneration", "CLIP and LLaMA; grids of 2 x 1, 1 x 2 and 2 x 2 parts")},
        "llama",
        "none",
        more={
            "llava-next-siglip": (
                "LlavaNextForConditionalGeneration",
                {},
                "SigLIP and Qwen 2, tied; one state of the last layer; grids of up to three parts",
            )
        },
    ),
}
SIZES_OF = {  # heights and widths of the pictures, of which prompts have the first two
    "llava-next": [(40, 30), (9, 25), (19, 18)],
    "llava-next-siglip": [(12, 40), (50, 16), (24, 25)],
}
TEXTS = [IMAGE + "\n" + BATCH[1], "see " + IMAGE + " " + BATCH[4], BATCH[1] + IMAGE]
PINPOINTS = {
    "llava-next": [[18, 36], [36, 18], [36, 36]],
    "llava-next-siglip": [[24, 48], [48, 24], [72, 24], [24, 72]],
}


def name_of(name):
    return name if name in PINPOINTS else "llava-next"


def parts_of(name):
    """What differs from LLaVA: text_config, vision_config, other fields."""
    other = dict(image_grid_pinpoints=PINPOINTS[name_of(name)])
    if name == "llava-next-siglip":
        vision = dict(
            model_type="siglip_vision_model",
            hidden_size=12,
            intermediate_size=20,
            num_hidden_layers=2,
            num_attention_heads=3,
            image_size=24,
            patch_size=8,
            vision_use_head=False,
        )
        other |= dict(vision_feature_layer=-1, vision_feature_select_strategy="full", tie_word_embeddings=True)
        return dict(model_type="qwen2"), vision, other
    return {}, dict(image_size=18, patch_size=6), other


def grid_of(size, config):
    height, width = select_best_resolution(size, config.image_grid_pinpoints)
    side = config.vision_config.image_size
    return height // side, width // side


def places_of(size, config):
    """As LlavaNextProcessor counts them."""
    from transformers import LlavaNextProcessor

    side = config.vision_config.image_size // config.vision_config.patch_size
    rows, columns = grid_of(size, config)
    lines, ends = LlavaNextProcessor._get_unpadded_features(None, *size, side, side, rows, columns)
    return side * side + lines + ends


def expanded(texts, name, config):
    return [text.replace(IMAGE, IMAGE * places_of(size, config)) for text, size in zip(texts, SIZES_OF[name_of(name)])]


def pictures_of(name, config, random):
    side, sizes = config.vision_config.image_size, SIZES_OF[name_of(name)]
    grids = [grid_of(size, config) for size in sizes]
    most = max(rows * columns for rows, columns in grids) + 1
    pixels = torch.empty(len(sizes), most, 3, side, side).normal_(generator=random)
    for picture, (rows, columns) in zip(pixels, grids):
        picture[rows * columns + 1 :] = 0
    return {"pixel_values": pixels, "image_sizes": torch.tensor(sizes)}


def processor_of(config):
    """Its own fields, and those of its pictures."""
    side = config.vision_config.image_size
    images = dict(
        image_processor_type="LlavaNextImageProcessor",
        image_grid_pinpoints=config.image_grid_pinpoints,
        size=dict(shortest_edge=side),
        crop_size=dict(height=side, width=side),
        do_center_crop=True,
        do_convert_rgb=True,
        do_normalize=True,
        do_pad=True,
        do_rescale=True,
        do_resize=True,
        resample=3,
        rescale_factor=1 / 255,
        image_mean=[0.48145466, 0.4578275, 0.40821073],
        image_std=[0.26862954, 0.26130258, 0.27577711],
    )
    strategy = config.vision_feature_select_strategy
    own = dict(
        processor_class="LlavaNextProcessor",
        image_token=IMAGE,
        patch_size=config.vision_config.patch_size,
        vision_feature_select_strategy=strategy,
        num_additional_image_tokens=1 if strategy == "default" else 0,
    )
    return own, images
