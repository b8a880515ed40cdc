# SPDX-License-Identifier: Apache-2.0
"""Models that see the tiles of a picture: Idefics3 and SmolVLM."""

import torch

from family import Family
from sizes import SIZES
from vocabularies import BATCH

IMAGE = "<image>"
AROUND = ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
MARKS = AROUND + [f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)]
TILES = {
    "idefics3": Family(
        {},
        ["Idefics3Model", "Idefics3ForConditionalGeneration"],
        {"idefics3": ("Idefics3ForConditionalGeneration", "four patches become one row; LLaMA")},
        "llama",
        "none",
    ),
    "smolvlm": Family(
        {},
        ["SmolVLMModel", "SmolVLMForConditionalGeneration"],
        {"smolvlm": ("SmolVLMForConditionalGeneration", "nine patches become one row; Qwen 2, tied; masked pixels")},
        "qwen2",
        "none",
    ),
}
PICTURES = (1, 1, 2, 0)  # of the rows of a batch: prompts have one, those of the first rows
TEXTS = [IMAGE + "\n" + BATCH[1], "see " + IMAGE + " " + BATCH[4], IMAGE + " and " + IMAGE + " here", BATCH[1]]
ROPE = dict(rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})


def parts_of(name):
    """text_config, vision_config and the other fields."""
    if name.startswith("smolvlm"):
        vision = dict(
            hidden_size=12,
            intermediate_size=20,
            num_hidden_layers=2,
            num_attention_heads=3,
            image_size=18,
            patch_size=6,
            hidden_act="gelu",
            layer_norm_eps=1e-5,
        )
        return dict(model_type="qwen2"), vision, dict(scale_factor=3, tie_word_embeddings=True)
    vision = SIZES["vision"] | dict(image_size=16, patch_size=4, hidden_act="gelu_pytorch_tanh")
    return dict(model_type="llama"), vision, dict(scale_factor=2)


def places_of(config):
    side = config.vision_config.image_size // config.vision_config.patch_size
    return side * side // config.scale_factor**2


def pictures_of(name, config, random):
    """Tiles of the rows, black where a row has fewer."""
    side = config.vision_config.image_size
    pixels = torch.empty(len(PICTURES), 2, 3, side, side).normal_(generator=random)
    for row, count in enumerate(PICTURES):
        pixels[row, count:] = 0
    inputs = {"pixel_values": pixels}
    if name == "smolvlm":
        mask = torch.ones(len(PICTURES), 2, side, side, dtype=torch.long)
        mask[1, 0, 12:], mask[2, 1, :, 7:] = 0, 0
        inputs["pixel_attention_mask"] = mask
    return inputs


def processor_of(name, config):
    """The processor's class, its own fields, and those of its pictures."""
    side = config.vision_config.image_size
    kind = "SmolVLM" if name.startswith("smolvlm") else "Idefics3"
    images = dict(
        image_processor_type=kind + "ImageProcessor",
        do_convert_rgb=True,
        do_image_splitting=True,
        do_normalize=True,
        do_pad=True,
        do_rescale=True,
        do_resize=True,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        max_image_size=dict(longest_edge=side),
        resample=1,
        rescale_factor=1 / 255,
        size=dict(longest_edge=2 * side + 5),
    )
    return dict(processor_class=kind + "Processor", image_seq_len=places_of(config)), images
