# SPDX-License-Identifier: Apache-2.0
"""Models that see pictures of any size as blocks of patches, whose places have a row and a column: Qwen2-VL, 2.5 and 3."""

import json

import torch

from family import Family
from vocabularies import BATCH

IMAGE, BEGIN, END = "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"
MARKS = [BEGIN, END]
BLOCKS = {
    "qwen2_vl": Family(
        {},
        ["Qwen2VLModel", "Qwen2VLForConditionalGeneration"],
        {"qwen2-vl": ("Qwen2VLForConditionalGeneration", "pictures of three sizes; positions of three axes")},
        "qwen2",
        "none",
    ),
    "qwen2_5_vl": Family(
        {},
        ["Qwen2_5_VLModel", "Qwen2_5_VLForConditionalGeneration"],
        {"qwen2-5-vl": ("Qwen2_5_VLForConditionalGeneration", "windows in one block of two; tied weights")},
        "qwen2",
        "none",
    ),
    "qwen3_vl": Family(
        {},
        ["Qwen3VLModel", "Qwen3VLForConditionalGeneration"],
        {"qwen3-vl": ("Qwen3VLForConditionalGeneration", "states of two layers behind blocks; axes in turns; one head of keys")},
        "qwen2",
        "none",
    ),
}
GRIDS = [(4, 6), (6, 10), (2, 4)]  # heights and widths in patches; prompts have the first two
MERGE, PATCH = 2, 4
ONE = BEGIN + IMAGE + END
TEXTS = [ONE + "\n" + BATCH[1], "see " + ONE + " and " + ONE, BATCH[1]]
PROMPTS = [ONE + "\nThe licence", "You may copy " + ONE + " and modify"]
CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def is_newest(name):
    return name.startswith("qwen3-vl")


def is_newer(name):
    return name.startswith("qwen2-5-vl")


def parts_of(name):
    """text_config, vision_config, other fields."""
    text = dict(
        model_type="qwen2_5_vl_text" if is_newer(name) else "qwen2_vl_text",
        num_attention_heads=2,
        num_key_value_heads=1,
        rope_parameters=dict(rope_theta=10000.0, rope_type="default", mrope_section=[1, 1, 2]),
    )
    vision = dict(depth=2, num_heads=2, patch_size=PATCH, spatial_merge_size=MERGE)
    if is_newest(name):
        text |= dict(model_type="qwen3_vl_text", head_dim=12)
        text["rope_parameters"]["mrope_section"] = [2, 3, 1]
        vision |= dict(
            depth=3,
            hidden_size=16,
            intermediate_size=20,
            out_hidden_size=16,
            num_position_embeddings=25,
            deepstack_visual_indexes=[0, 1],
        )
        return text, vision, {}
    if is_newer(name):
        vision |= dict(
            hidden_size=16, intermediate_size=20, out_hidden_size=16, window_size=16, fullatt_block_indexes=[1]
        )
        return text, vision, dict(tie_word_embeddings=True)
    vision |= dict(embed_dim=24, mlp_ratio=2, hidden_size=16)
    return text, vision, {}


def places_of(grid):
    return grid[0] // MERGE * (grid[1] // MERGE)


def expanded(texts):
    """Each mark of a picture as often as the next of GRIDS has places."""
    grids = iter(GRIDS)
    parts = []
    for text in texts:
        pieces = text.split(IMAGE)
        parts.append(pieces[0] + "".join(IMAGE * places_of(next(grids)) + piece for piece in pieces[1:]))
    return parts


def words_of(begin, random, words):
    """Rows of a case without a tokenizer."""
    said = lambda count: torch.randint(5, words - 2, (count,), generator=random).tolist()
    marked = lambda grid: said(1) + [begin] * places_of(grid) + said(2)
    return [marked(GRIDS[0]), marked(GRIDS[1]) + marked(GRIDS[2]), said(6)]


def pictures_of(random):
    numbers = 3 * 2 * PATCH * PATCH
    pixels = torch.empty(sum(h * w for h, w in GRIDS), numbers).normal_(generator=random)
    return {"pixel_values": pixels, "image_grid_thw": torch.tensor([[1, *grid] for grid in GRIDS])}


def pictures_of_prompts(rows):
    """Of GRIDS[rows], as generate.json names them."""
    first = sum(h * w for h, w in GRIDS[: rows.start])
    count = sum(h * w for h, w in GRIDS[rows])
    return {
        "pixel_values": f"inputs.safetensors:pixel_values[{first}:{first + count}]",
        "image_grid_thw": [[1, *grid] for grid in GRIDS[rows]],
    }


def images_of():
    """The fields of the processor of pictures."""
    return dict(
        image_processor_type="Qwen2VLImageProcessor",
        do_convert_rgb=True,
        do_normalize=True,
        do_rescale=True,
        do_resize=True,
        image_mean=[0.48145466, 0.4578275, 0.40821073],
        image_std=[0.26862954, 0.26130258, 0.27577711],
        merge_size=MERGE,
        patch_size=PATCH,
        temporal_patch_size=2,
        resample=3,
        rescale_factor=1 / 255,
        size=dict(shortest_edge=64, longest_edge=640),
    )


def processor_of(folder, chat=CHAT, fields=()):
    """Without the part for videos, which the class asks for; with these fields of its own."""
    import transformers

    said = json.loads((folder / "processor_config.json").read_text())
    kind, own = said["processor_class"], {field: said[field] for field in fields}

    class OfPictures(getattr(transformers, kind)):
        def check_argument_for_proper_class(self, name, given):
            pass

    images = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return OfPictures(images, tokenizer, None, chat_template=chat, **own)
