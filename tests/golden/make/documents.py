# SPDX-License-Identifier: Apache-2.0
"""Models that read pages: words, the box that each word stands in, and, in LayoutLMv3, the picture of the page."""

import torch

from family import ANSWERS, MASKED, SEQUENCE, TOKENS, Family, names

LARGEST = 1000  # of a coordinate, whatever the page's size

PAGES = dict(
    hidden_size=12,
    intermediate_size=16,
    num_attention_heads=2,
    coordinate_size=2,
    shape_size=2,
    max_2d_position_embeddings=1024,
    rel_pos_bins=8,
    max_rel_pos=6,
    rel_2d_pos_bins=12,
    max_rel_2d_pos=400,
    input_size=16,
    patch_size=8,
    pad_token_id=1,
)

DOCUMENTS = {
    "layoutlm": Family(
        dict(max_2d_position_embeddings=1001, hidden_size=8, intermediate_size=12, num_attention_heads=2),
        names("LayoutLM", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED),
        {"layoutlm-question-answering": ("LayoutLMForQuestionAnswering", "words with the corners, heights and widths of their boxes")},
        "bert",
        small={
            "layoutlm-other-masked": (
                "LayoutLMForMaskedLM",
                dict(hidden_size=12, num_attention_heads=3, hidden_act="relu", type_vocab_size=3, max_2d_position_embeddings=40),
                "odd heads; ReLU; small pages",
            ),
        },
    ),
    "layoutlmv3": Family(
        PAGES,
        names("LayoutLMv3", "Model", SEQUENCE, TOKENS, ANSWERS),
        {"layoutlmv3-question-answering": ("LayoutLMv3ForQuestionAnswering", "words and patches of a page; biases by places and boxes")},
        small={
            "layoutlmv3-token-classification": ("LayoutLMv3ForTokenClassification", {}, "classes of the words alone"),
            "layoutlmv3-other-token-classification": (
                "LayoutLMv3ForTokenClassification",
                dict(hidden_size=18, coordinate_size=3, shape_size=3, num_attention_heads=3, has_spatial_attention_bias=False, visual_embed=False),
                "eleven classes, by two layers; no pictures; a bias by places alone",
            ),
        },
    ),
}


def inputs_of(config, inputs, random):
    """What stands beside the words: a box for each, (x0, y0, x1, y1), the second corner not before the first, nought
    for padding; and the picture of the page."""
    most = min(LARGEST, config.max_2d_position_embeddings - 1)
    corners = torch.randint(0, most + 1, inputs["input_ids"].shape + (2, 2), generator=random)
    boxes = corners.sort(-2).values.flatten(-2)
    found = {"bbox": boxes * inputs["attention_mask"][..., None]}
    if getattr(config, "visual_embed", False):
        size = (len(boxes), config.num_channels, config.input_size, config.input_size)
        found["pixel_values"] = torch.empty(size).normal_(generator=random)
    return found
