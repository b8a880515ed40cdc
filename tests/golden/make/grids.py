# SPDX-License-Identifier: Apache-2.0
"""LLaVA-NeXT and LLaVA-OneVision: a picture and a grid of its parts."""

import types

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
    "llava_onevision": Family(
        {},
        ["LlavaOnevisionModel", "LlavaOnevisionForConditionalGeneration"],
        {
            "llava-onevision": (
                "LlavaOnevisionForConditionalGeneration",
                "SigLIP and Qwen 2, tied; a grid of 2 x 2 parts becomes that of one; names of weights as in Transformers 4",
            )
        },
        "qwen2",
        "none",
        small={
            "llava-onevision-several": (
                "LlavaOnevisionForConditionalGeneration",
                {},
                "two pictures of a text are a part each; CLIP and LLaMA; states of two layers without the class token",
            )
        },
    ),
}
SIZES_OF = {  # heights and widths of the pictures, of which prompts have the first two
    "llava-next": [(40, 30), (9, 25), (19, 18)],
    "llava-next-siglip": [(12, 40), (50, 16), (24, 25)],
    "llava-onevision": [(40, 34), (9, 25)],
    "llava-onevision-several": [(40, 30), (9, 25), (33, 50)],
}
TEXTS = [IMAGE + "\n" + BATCH[1], "see " + IMAGE + " " + BATCH[4], BATCH[1] + IMAGE]
SHORT = [IMAGE + "\nThe licence", "see " + IMAGE + " and"]
PINPOINTS = {
    "llava-next": [[18, 36], [36, 18], [36, 36]],
    "llava-next-siglip": [[24, 48], [48, 24], [72, 24], [24, 72]],
    "llava-onevision": [[12, 12], [12, 24], [24, 12], [24, 24]],
    "llava-onevision-several": [[12, 24], [24, 24], [24, 36]],
}
FIELDS = ("num_image_tokens", "vision_feature_select_strategy", "vision_aspect_ratio")  # of LlavaOnevisionProcessor
TOGETHER = {"llava-onevision-several": [2, 1]}  # pictures of each text; else each has one


def name_of(name):
    if name in PINPOINTS:
        return name
    return "llava-onevision-several" if name.startswith("llava-onevision") else "llava-next"


def is_onevision(name):
    return name.startswith("llava-onevision")


def siglip(**sizes):
    return dict(
        model_type="siglip_vision_model", hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3
    ) | dict(vision_use_head=False, **sizes)


def parts_of(name):
    """What differs from LLaVA: text_config, vision_config, other fields."""
    other = dict(image_grid_pinpoints=PINPOINTS[name_of(name)])
    if name == "llava-next-siglip":
        vision = siglip(image_size=24, patch_size=8)
        other |= dict(vision_feature_layer=-1, vision_feature_select_strategy="full", tie_word_embeddings=True)
        return dict(model_type="qwen2"), vision, other
    if name == "llava-onevision":
        text = dict(model_type="qwen2", hidden_size=8, intermediate_size=16, num_attention_heads=2, num_key_value_heads=1)
        return text | dict(tie_word_embeddings=True), siglip(image_size=12, patch_size=6), other | dict(
            vision_aspect_ratio="anyres_max_1", video_token_index=1
        )
    if is_onevision(name):
        vision = dict(image_size=12, patch_size=4, hidden_size=8, intermediate_size=12, num_attention_heads=2)
        other |= dict(vision_aspect_ratio="anyres_max_2", vision_feature_layer=[-1, 0], video_token_index=1)
        other |= dict(vision_feature_select_strategy="default", multimodal_projector_bias=False)
        return {}, vision, other | dict(projector_hidden_act="gelu_pytorch_tanh")
    return {}, dict(image_size=18, patch_size=6), other


def grid_of(size, config):
    height, width = select_best_resolution(size, config.image_grid_pinpoints)
    side = config.vision_config.image_size
    return height // side, width // side


def places_of(size, config, together=1):
    """As the processors count them."""
    from transformers import LlavaNextProcessor, LlavaOnevisionProcessor

    side = config.vision_config.image_size // config.vision_config.patch_size
    if together > 1:
        return side * side + 1
    rows, columns = grid_of(size, config)
    ratio = getattr(config, "vision_aspect_ratio", None)
    counting = LlavaOnevisionProcessor if ratio else LlavaNextProcessor
    lines, ends = counting._get_unpadded_features(
        types.SimpleNamespace(vision_aspect_ratio=ratio), *size, side, side, rows, columns
    )
    return side * side + lines + ends


def expanded(texts, name, config):
    return [text.replace(IMAGE, IMAGE * places_of(size, config)) for text, size in zip(texts, SIZES_OF[name_of(name)])]


def texts_of(name):
    return SHORT if name == "llava-onevision" else TEXTS


def rows_of(name, config, image, random, words):
    """Rows of a case without a tokenizer: for each text its pictures, and four words."""
    sizes, rows = iter(SIZES_OF[name_of(name)]), []
    for count in TOGETHER.get(name_of(name), [1] * len(SIZES_OF[name_of(name)])):
        places = sum(places_of(next(sizes), config, count) for _ in range(count))
        rows.append([image] * places + torch.randint(5, words, (4,), generator=random).tolist())
    return rows


def prompts_of(name, config, image, rows):
    """The same for generate(), where each picture is alone; padded at the left."""
    sizes = SIZES_OF[name_of(name)][rows]
    made = [[image] * places_of(size, config) + [17 + i, 8, 23] for i, size in enumerate(sizes)]
    length = max(map(len, made))
    return {
        "input_ids": [[0] * (length - len(row)) + row for row in made],
        "attention_mask": [[0] * (length - len(row)) + [1] * len(row) for row in made],
    }


def pictures_of(name, config, random):
    side, sizes = config.vision_config.image_size, SIZES_OF[name_of(name)]
    grids = [grid_of(size, config) for size in sizes]
    most = max(rows * columns for rows, columns in grids) + 1
    pixels = torch.empty(len(sizes), most, 3, side, side).normal_(generator=random)
    for picture, (rows, columns) in zip(pixels, grids):
        picture[rows * columns + 1 :] = 0
    inputs = {"pixel_values": pixels, "image_sizes": torch.tensor(sizes)}
    if name_of(name) in TOGETHER:
        inputs["batch_num_images"] = torch.tensor(TOGETHER[name_of(name)])
    return inputs


def processor_of(name, config):
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
    if is_onevision(name):
        images |= dict(image_processor_type="LlavaOnevisionImageProcessor", size=dict(height=side, width=side))
        images |= dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
        del images["crop_size"], images["do_center_crop"]
        own = dict(
            processor_class="LlavaOnevisionProcessor",
            image_token=IMAGE,
            video_token="<video>",
            num_image_tokens=(side // config.vision_config.patch_size) ** 2,
            vision_feature_select_strategy=strategy,
            vision_aspect_ratio=config.vision_aspect_ratio,
            video_processor=dict(video_processor_type="LlavaOnevisionVideoProcessor"),
        )
        return own, images
    own = dict(
        processor_class="LlavaNextProcessor",
        image_token=IMAGE,
        patch_size=config.vision_config.patch_size,
        vision_feature_select_strategy=strategy,
        num_additional_image_tokens=1 if strategy == "default" else 0,
    )
    return own, images
