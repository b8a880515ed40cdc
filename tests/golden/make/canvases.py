# SPDX-License-Identifier: Apache-2.0
"""Llama 3.2 Vision: layers of the decoder look at the tiles of pictures, which have one token each in a text."""

import torch
from transformers.models.mllama.processing_mllama import (
    convert_sparse_cross_attention_mask_to_dense,
    get_cross_attention_token_mask,
)

from family import Family
from vocabularies import BATCH

IMAGE = "<|image|>"
WORDS = 60  # of a case without a tokenizer; the picture's token stands behind them
CANVASES = {
    "mllama": Family(
        {},
        ["MllamaModel", "MllamaForConditionalGeneration"],
        {"mllama": ("MllamaForConditionalGeneration", "canvases of up to four tiles; two of four layers look at pictures")},
        "llama",
        "none",
        small={
            "mllama-other": (
                "MllamaForConditionalGeneration",
                {},
                "two tiles, three forms; the last state between before the first; one head of keys",
            )
        },
    )
}
# Each row's pictures by (rows, columns) of their tiles; text before, between and behind them, and side by side.
GRIDS = {
    4: [[(2, 2), (1, 2)], [(1, 1), (1, 4)], [(2, 1)]],
    2: [[(1, 2), (1, 1)], [(2, 1), (1, 2)], [(1, 1)]],
}
TEXTS = [f"see {IMAGE} and {IMAGE} here", f"{IMAGE}{IMAGE}{BATCH[4]}", f"The {IMAGE}{BATCH[1]}"]
PROMPTS = [f"see {IMAGE} and {IMAGE} here", f"{IMAGE}{IMAGE} The licence"]
CHAT = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}{% if part.type == 'image' %}<|image|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def has(name):
    return name.startswith("mllama")


def parts_of(name, text, tokenizer):
    """All fields; `text` has those of any decoder."""
    vocabulary = text["vocab_size"] if tokenizer is None else len(tokenizer) - 1
    vision = dict(
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=2,
        num_global_layers=1,
        attention_heads=2,
        vision_output_dim=16,
        image_size=8,
        patch_size=4,
        max_num_tiles=4,
        intermediate_layers_indices=[0],
    )
    own = dict(vocab_size=vocabulary, hidden_size=12, intermediate_size=16, num_attention_heads=3, num_key_value_heads=3)
    own |= dict(num_hidden_layers=4, cross_attention_layers=[1, 3])
    if name == "mllama-other":
        vision |= dict(image_size=9, patch_size=3, num_hidden_layers=3, hidden_act="gelu_pytorch_tanh", norm_eps=1e-3)
        vision |= dict(intermediate_layers_indices=[2, 0], vision_output_dim=24, max_num_tiles=2, num_global_layers=2)
        vision |= dict(supported_aspect_ratios=[[1, 1], [1, 2], [2, 1]])
        own |= dict(hidden_size=16, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=3, hidden_act="gelu")
        own |= dict(cross_attention_layers=[1], rms_norm_eps=1e-3)
    elif name != "mllama":
        own |= dict(num_hidden_layers=2, cross_attention_layers=[1])
    text = {key: value for key, value in text.items() if key != "model_type"}
    return dict(text_config=text | own, vision_config=vision, image_token_index=vocabulary)


def forms_of(config):
    return [tuple(form) for form in config.vision_config.supported_aspect_ratios]


def seen_of(rows, grids, config):
    """cross_attention_mask, as the processor makes it of ids."""
    masks = [get_cross_attention_token_mask(row, config.image_token_index) for row in rows]
    tiles = [[high * wide for high, wide in own] for own in grids]
    return convert_sparse_cross_attention_mask_to_dense(
        masks, tiles, config.vision_config.max_num_tiles, max(map(len, rows))
    )


def pictures_of(grids, config, random):
    """What the processor says of pictures, those that fill up a row too; their pixels are drawn."""
    vision, most = config.vision_config, max(map(len, grids))
    tiles, side = vision.max_num_tiles, vision.image_size
    pixels = torch.empty(len(grids), most, tiles, 3, side, side).normal_(generator=random)
    ids = torch.zeros(len(grids), most, dtype=torch.long)
    mask = torch.zeros(len(grids), most, tiles, dtype=torch.long)
    mask[:, :, 0] = 1
    for row in range(len(grids)):
        for place in range(most):
            high, wide = grids[row][place] if place < len(grids[row]) else (0, 0)
            pixels[row, place, high * wide :] = 0
            mask[row, place, : high * wide] = 1
            if high:
                ids[row, place] = forms_of(config).index((high, wide)) + 1
    return {"pixel_values": pixels, "aspect_ratio_ids": ids, "aspect_ratio_mask": mask}


def filled(rows, left):
    length = max(map(len, rows))
    fill = lambda row, value, kept: [value] * (length - len(row)) + kept if left else kept + [value] * (length - len(row))
    return [fill(row, 0, row) for row in rows], [fill(row, 0, [1] * len(row)) for row in rows]


def wordless_rows(image):
    return [[7, image, 9, 11, image, 13, 5], [image, image, 17, 8, 23], [31, 12, image, 40]]


def inputs_of(class_name, config, tokenizer, random):
    image = config.image_token_index
    rows = wordless_rows(image) if tokenizer is None else [tokenizer(text)["input_ids"] for text in TEXTS]
    ids, mask = filled(rows, False)
    grids = GRIDS[config.vision_config.max_num_tiles]
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)} | pictures_of(grids, config, random)
    inputs["cross_attention_mask"] = torch.from_numpy(seen_of(ids, grids, config))
    if class_name.endswith("Generation"):
        counted = (inputs["attention_mask"] == 1) & (inputs["input_ids"] != image)
        inputs["labels"] = torch.where(counted, inputs["input_ids"], -100)
    return inputs


def prompts_of(model, tokenizer, rows):
    """Rows of two pictures each, those of the case's inputs."""
    config = model.config
    image = config.image_token_index
    made = wordless_rows(image)[:2] if tokenizer is None else [tokenizer(text)["input_ids"] for text in PROMPTS]
    ids, mask = filled(made[rows], True)
    grids = GRIDS[config.vision_config.max_num_tiles][rows]
    told = pictures_of(grids, config, None)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "pixel_values": f"inputs.safetensors:pixel_values[{rows.start}:{rows.stop}]",
        "aspect_ratio_ids": told["aspect_ratio_ids"].tolist(),
        "aspect_ratio_mask": told["aspect_ratio_mask"].tolist(),
        "cross_attention_mask": seen_of(ids, grids, config).tolist(),
    }


def processor_of(config):
    side = config.vision_config.image_size
    images = dict(
        image_processor_type="MllamaImageProcessor",
        do_convert_rgb=True,
        do_normalize=True,
        do_pad=True,
        do_rescale=True,
        do_resize=True,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        max_image_tiles=config.vision_config.max_num_tiles,
        resample=2,
        rescale_factor=1 / 255,
        size=dict(height=side, width=side),
    )
    return dict(processor_class="MllamaProcessor"), images
