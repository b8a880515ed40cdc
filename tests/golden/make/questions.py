# SPDX-License-Identifier: Apache-2.0
"""BLIP: captions, answers to questions about pictures, and whether a text fits a picture."""

import copy
import inspect

from family import Family, names

PARTS = dict(
    text_config=dict(
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=40,
    ),
    vision_config=dict(
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=16,
        patch_size=8,
    ),
    projection_dim=8,
    image_text_hidden_size=8,
)
# How captions begin, and questions, with the first and the last token of the tokenizer.
BEGINNINGS = [[4, 17, 42, 8, 23, 5], [4, 31, 9, 55, 12, 5]]

QUESTIONS = {
    "blip": Family(
        PARTS,
        names("Blip", "ForConditionalGeneration", "ForQuestionAnswering", "ForImageTextRetrieval", "Model"),
        {
            "blip-captions": ("BlipForConditionalGeneration", "a decoder that looks at a picture; post-norm; a tied head"),
            "blip-questions": ("BlipForQuestionAnswering", "a question that looks at a picture, and an answer to both"),
        },
        "bert",
        "none",
    )
}


def fields_of(fields, is_main, tokenizer):
    """With the words of a tokenizer; one layer in small cases."""
    fields = copy.deepcopy(fields)
    words = dict(vocab_size=60, bos_token_id=58, sep_token_id=3, pad_token_id=0, eos_token_id=2)
    if tokenizer is not None:
        words = dict(vocab_size=len(tokenizer), bos_token_id=tokenizer.mask_token_id, eos_token_id=2)
        words |= dict(sep_token_id=tokenizer.sep_token_id, pad_token_id=tokenizer.pad_token_id)
    fields["text_config"] |= words
    if not is_main:
        for part in ("text_config", "vision_config"):
            fields[part]["num_hidden_layers"] = 1
    return fields


def inputs_of(class_name, config, texts, integers, floats):
    side = config.vision_config.image_size
    inputs = texts | {"pixel_values": floats(2, 3, side, side)}
    if class_name == "BlipForConditionalGeneration":
        inputs["labels"] = texts["input_ids"].masked_fill(texts["attention_mask"] == 0, -100)
    if class_name == "BlipForQuestionAnswering":
        # Without padding, which the answer sees in 5.24: the mask of its attention to the question is lost.
        inputs["input_ids"] = integers(config.text_config.vocab_size - 2, texts["input_ids"].shape, 5)
        inputs["attention_mask"] = texts["attention_mask"] * 0 + 1
        inputs["labels"] = integers(config.text_config.vocab_size - 2, (2, 5), 5)
    return inputs


def prompts_of(rows):
    ids = BEGINNINGS[rows]
    pictures = f"inputs.safetensors:pixel_values[{rows.start}:{rows.stop}]"
    return {"pixel_values": pictures, "input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]}


def is_own(model):
    """Whether generate() is the class's own, which says itself where a text ends."""
    return "pixel_values" in inspect.signature(type(model).generate).parameters
