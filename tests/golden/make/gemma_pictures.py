# SPDX-License-Identifier: Apache-2.0
"""Gemma with pictures, some of whose tokens see each other: PaliGemma, whose prompts do, and Gemma 3, whose pictures do."""

import json
import pathlib

import torch

from family import Family
from sizes import SIZES
from vocabularies import BATCH

IMAGE, SOFT, BEGIN, END = "<image>", "<image_soft_token>", "<start_of_image>", "<end_of_image>"
GEMMAS = {
    "paligemma": Family(
        {},
        ["PaliGemmaModel", "PaliGemmaForConditionalGeneration"],
        {"paligemma": ("PaliGemmaForConditionalGeneration", "SigLIP and Gemma; prompts see both sides, suffixes do not")},
        "gemma",
        "none",
        more={
            "paligemma2": (
                "PaliGemmaForConditionalGeneration",
                {},
                "SigLIP and Gemma 2: capped logits; windows of 6, which prompts see beyond",
            )
        },
    ),
    "gemma3": Family(
        {},
        ["Gemma3Model", "Gemma3ForConditionalGeneration"],
        {"gemma3": ("Gemma3ForConditionalGeneration", "blocks of four patches; pictures see both sides; pan and scan")},
        "gemma",
        "none",
        more={
            "gemma3-narrow": (
                "Gemma3ForConditionalGeneration",
                {},
                "a row for each patch; windows narrower than a picture",
            )
        },
    ),
}
CHAT = (
    "{% if begins %}{{ bos_token }}{% endif %}{% for message in messages %}{{ '<' + message.role + '>\n' }}"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}MARK{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{{ '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<model>\n' }}{% endif %}"
)
WORDS = 60  # of a case without a tokenizer
SCANS = dict(
    do_pan_and_scan=True,
    pan_and_scan_min_crop_size=8,
    pan_and_scan_max_num_crops=3,
    pan_and_scan_min_ratio_to_activate=1.2,
)


def has(name):
    return name.startswith(("paligemma", "gemma3"))


def sees_prompts(name):
    return name.startswith("paligemma")


def image_token(name):
    """That which fills the places of pictures."""
    return IMAGE if sees_prompts(name) else SOFT


def mark_of(name):
    """That which stands for a picture in texts that people write."""
    return IMAGE if sees_prompts(name) else BEGIN


def chat_of(name):
    return CHAT.replace("{% if begins %}{{ bos_token }}{% endif %}", "" if sees_prompts(name) else "{{ bos_token }}").replace(
        "MARK", mark_of(name)
    )


def name_tokens(folder):
    """Gemma 3's tokenizer knows what its tokens are for."""
    path = pathlib.Path(folder) / "tokenizer_config.json"
    named = dict(image_token=SOFT, boi_token=BEGIN, eoi_token=END)
    path.write_text(json.dumps(json.loads(path.read_text()) | named | dict(extra_special_tokens=named)))


def parts_of(name, text, image, tokenizer):
    """All fields; `text` has those of any decoder."""
    vision = dict(
        model_type="siglip_vision_model",
        hidden_size=12,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=3,
        image_size=16,
        patch_size=4,
        vision_use_head=False,
    )
    text = {key: value for key, value in text.items() if key != "rope_parameters"} | dict(head_dim=4)
    if name.startswith("paligemma2"):
        text |= dict(
            model_type="gemma2",
            query_pre_attn_scalar=6,
            attn_logit_softcapping=20.0,
            final_logit_softcapping=10.0,
            sliding_window=6,
        )
    elif sees_prompts(name):
        text |= dict(model_type="gemma")
    else:
        kinds = ["sliding_attention", "full_attention"]
        text |= dict(query_pre_attn_scalar=6, sliding_window=9, layer_types=kinds[: text["num_hidden_layers"]])
        if name == "gemma3-narrow":
            vision |= dict(image_size=12, vision_use_head=True)
            text |= dict(sliding_window=5)
    fields = dict(text_config=text, vision_config=vision, image_token_index=image)
    if sees_prompts(name):
        return fields | dict(projection_dim=text["hidden_size"], hidden_size=text["hidden_size"])
    marks = [tokenizer.convert_tokens_to_ids(mark) if tokenizer else 5 for mark in (BEGIN, END)]
    places = 9 if name == "gemma3-narrow" else 4
    return fields | dict(mm_tokens_per_image=places, boi_token_index=marks[0], eoi_token_index=marks[1])


def places_of(config):
    side = config.vision_config.image_size // config.vision_config.patch_size
    return getattr(config, "mm_tokens_per_image", side * side)


def picture_of(name, config):
    """What a picture is in a text."""
    if sees_prompts(name):
        return IMAGE * places_of(config)
    return "\n\n" + BEGIN + SOFT * places_of(config) + END + "\n\n"


def prompts(name, config):
    one = picture_of(name, config)
    if sees_prompts(name):
        return [one + "<bos>The licence\n", one + "<bos>You may copy and modify\n"]
    return ["<bos>" + one + "The licence", "<bos>You may copy " + one + " and modify"]


def texts_of(name, config):
    """Prompts, and what is written behind them."""
    one = picture_of(name, config)
    if sees_prompts(name):
        return [one + one + "<bos>" + BATCH[1] + "\n", one + "<bos>see\n"], [BATCH[4], BATCH[1]]
    # No padding is longer than the window: the reference makes NaN of it in float64.
    if name == "gemma3-narrow":
        return ["<bos>" + one + "The licence", "<bos>The licence" + one], None
    return ["<bos>see " + one + "and" + one + BATCH[4], "<bos>" + BATCH[0], "<bos>" + one + BATCH[1]], None


def rows_of(name, config, tokenizer, image, random):
    """Ids of prompts and of what is behind them."""
    if tokenizer is not None:
        ids = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
        first, behind = texts_of(name, config)
        return [ids(text) for text in first], [ids(text) for text in behind] if behind else [[]] * len(first)
    said = lambda count: torch.randint(6, WORDS - 2, (count,), generator=random).tolist()
    one = [image] * places_of(config)
    first = [one + said(1) + one + said(3), said(2) + one]
    return (first, [said(4), said(6)]) if sees_prompts(name) else (first + [said(5)], [[]] * 3)


def batch_of(prompts, behind):
    """Filled up on the right, with the types that processors give."""
    length = max(len(first) + len(second) for first, second in zip(prompts, behind))
    fill = lambda row: row + [0] * (length - len(row))
    pairs = list(zip(prompts, behind))
    return (
        torch.tensor([fill(first + second) for first, second in pairs]),
        torch.tensor([fill([1] * len(first + second)) for first, second in pairs]),
        torch.tensor([fill([0] * len(first) + [1] * len(second)) for first, second in pairs]),
    )


def inputs_of(name, class_name, config, tokenizer, image, random):
    ids, mask, behind = batch_of(*rows_of(name, config, tokenizer, image, random))
    is_image = ids == image
    side = config.vision_config.image_size
    count = int(is_image.sum()) // places_of(config)
    inputs = {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": behind if sees_prompts(name) else is_image.long(),
        "pixel_values": torch.empty(count, 3, side, side).normal_(generator=random),
    }
    if class_name.endswith("Generation"):
        counted = behind == 1 if sees_prompts(name) else (mask == 1) & ~is_image
        inputs["labels"] = torch.where(counted, ids, -100)
    return inputs


def prompts_of(model, tokenizer, rows, name):
    made = tokenizer(prompts(name, model.config)[rows], add_special_tokens=False, padding=True, return_tensors="pt")
    is_image = made["input_ids"] == model.config.image_token_index
    types = torch.zeros_like(made["input_ids"]) if sees_prompts(name) else is_image.long()
    return {
        "input_ids": made["input_ids"].tolist(),
        "attention_mask": made["attention_mask"].tolist(),
        "token_type_ids": types.tolist(),
        "pixel_values": f"inputs.safetensors:pixel_values[{rows.start}:{rows.stop}]",
    }


def processor_of(name, config):
    """Its own fields, and those of its pictures."""
    side = config.vision_config.image_size
    images = dict(
        do_convert_rgb=True,
        do_normalize=True,
        do_rescale=True,
        do_resize=True,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        rescale_factor=1 / 255,
        size=dict(height=side, width=side),
    )
    if sees_prompts(name):
        images |= dict(image_processor_type="SiglipImageProcessor", image_seq_length=places_of(config), resample=3)
        return dict(processor_class="PaliGemmaProcessor"), images
    images |= dict(image_processor_type="Gemma3ImageProcessor", resample=2)
    if name == "gemma3":
        images |= SCANS
    return dict(processor_class="Gemma3Processor", image_seq_length=places_of(config)), images
