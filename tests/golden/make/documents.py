# SPDX-License-Identifier: Apache-2.0
"""Models that read pages: words, the box that each word stands in, and, in LayoutLMv3, the picture of the page."""

import torch

from family import ANSWERS, MASKED, SEQUENCE, TOKENS, Family, names

LARGEST = 1000  # of a coordinate, whatever the page's size

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
}


def inputs_of(config, inputs, random):
    """What stands beside the words: a box for each, (x0, y0, x1, y1), the second corner not before the first; nought
    for padding."""
    most = min(LARGEST, config.max_2d_position_embeddings - 1)
    corners = torch.randint(0, most + 1, inputs["input_ids"].shape + (2, 2), generator=random)
    boxes = corners.sort(-2).values.flatten(-2)
    return {"bbox": boxes * inputs["attention_mask"][..., None]}
