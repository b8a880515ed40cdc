# SPDX-License-Identifier: Apache-2.0
"""Models that see the tiles of a picture: Idefics2, Idefics3 and SmolVLM."""

import torch

from family import Family
from sizes import SIZES
from vocabularies import BATCH

IMAGE = "<image>"
AROUND = ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
MARKS = AROUND + [f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)]
TILES = {
    "idefics2": Family(
        {},
        ["Idefics2Model", "Idefics2ForConditionalGeneration"],
        {"idefics2": ("Idefics2ForConditionalGeneration", "wide pictures, masked; a perceiver of two layers; Mistral")},
        "qwen2",
        "none",
        small={
            "idefics2-other": ("Idefics2ForConditionalGeneration", {}, "a perceiver of other heads and widths; Qwen 2, tied")
        },
    ),
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
SHORT = [IMAGE + "\nThe licence", "see " + IMAGE + "and", IMAGE + " and " + IMAGE, "The licence"]  # as many
ROPE = dict(rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})


def parts_of(name):
    """text_config, vision_config and the other fields."""
    if is_older(name):
        vision = dict(hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3)
        vision |= dict(image_size=16, patch_size=4, hidden_act="gelu_pytorch_tanh")
        text = dict(hidden_size=8, intermediate_size=16, num_attention_heads=2, num_key_value_heads=1)
        perceiver = dict(hidden_size=8, resampler_n_latents=3, num_key_value_heads=1, resampler_n_heads=2)
        if name == "idefics2-other":
            other = dict(tie_word_embeddings=True, perceiver_config=perceiver)
            perceiver |= dict(resampler_depth=1, resampler_head_dim=6, resampler_n_heads=4, num_key_value_heads=2)
            perceiver |= dict(rms_norm_eps=1e-3, hidden_act="gelu")
            return text | dict(model_type="qwen2"), vision | dict(patch_size=3, hidden_act="gelu"), other
        perceiver |= dict(resampler_depth=2, resampler_head_dim=4)
        return text | dict(model_type="mistral"), vision, dict(perceiver_config=perceiver)
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


def texts_of(name):
    return SHORT if is_older(name) else TEXTS


def is_older(name):
    return name.startswith("idefics2")


def places_of(config):
    if hasattr(config, "perceiver_config"):
        return config.perceiver_config.resampler_n_latents
    side = config.vision_config.image_size // config.vision_config.patch_size
    return side * side // config.scale_factor**2


def pictures_of(name, config, random):
    """Tiles of the rows, black where a row has fewer."""
    side = config.vision_config.image_size
    height, width = (12, 20) if is_older(name) else (side, side)
    pixels = torch.empty(len(PICTURES), 2, 3, height, width).normal_(generator=random)
    for row, count in enumerate(PICTURES):
        pixels[row, count:] = 0
    inputs = {"pixel_values": pixels}
    if name == "idefics2":
        mask = torch.ones(len(PICTURES), 2, height, width, dtype=torch.long)
        mask[1, 0, :, 14:], mask[2, 1, 8:] = 0, 0
        inputs["pixel_attention_mask"] = mask
    if name == "smolvlm":
        mask = torch.ones(len(PICTURES), 2, side, side, dtype=torch.long)
        mask[1, 0, 12:], mask[2, 1, :, 7:] = 0, 0
        inputs["pixel_attention_mask"] = mask
    return inputs


def prompts_of(config, image, rows):
    """Of a case without a tokenizer, for generate(): each row has a picture; padded at the left."""
    made = [[17 + row, 8] * (row + 1) + [image] * places_of(config) + [23] for row in range(rows.start, rows.stop)]
    length = max(map(len, made))
    return {
        "input_ids": [[0] * (length - len(row)) + row for row in made],
        "attention_mask": [[0] * (length - len(row)) + [1] * len(row) for row in made],
    }


def without_padding(pixels, mask):
    """Of each picture the numbers of its four quarters and the whole, as large as the largest of them."""
    numbers = []
    for parts, seen in zip(pixels[0].split(5), mask[0].split(5)):
        height, width = int(seen[:, :, 0].sum(1).max()), int(seen[:, 0].sum(1).max())
        numbers.append(parts[:, :, :height, :width].flatten())
    return torch.cat(numbers)


def processor_of(name, config):
    """The processor's class, its own fields, and those of its pictures."""
    side = config.vision_config.image_size
    if is_older(name):
        images = dict(
            image_processor_type="Idefics2ImageProcessor",
            do_convert_rgb=True,
            do_image_splitting=True,
            do_normalize=True,
            do_pad=True,
            do_rescale=True,
            do_resize=True,
            image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
            resample=2,
            rescale_factor=1 / 255,
            size=dict(shortest_edge=8, longest_edge=side),
        )
        return dict(processor_class="Idefics2Processor", image_seq_len=places_of(config)), images
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
