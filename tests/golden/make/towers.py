# SPDX-License-Identifier: Apache-2.0
"""Towers of texts and of pictures that are trained to agree pair by pair: SigLIP."""

import torch

from family import Family, names
from sizes import SIZES

ACTIVE = dict(hidden_act="gelu_pytorch_tanh")
PARTS = dict(
    text_config=SIZES["encoder"] | ACTIVE | dict(vocab_size=60, pad_token_id=1, bos_token_id=2, eos_token_id=3),
    vision_config=SIZES["vision"] | ACTIVE,
)
OTHER = dict(
    text_config=dict(
        hidden_size=12,
        intermediate_size=20,
        num_hidden_layers=1,
        num_attention_heads=3,
        max_position_embeddings=20,
        vocab_size=50,
        projection_size=18,
        hidden_act="gelu",
        layer_norm_eps=1e-5,
        pad_token_id=1,
    ),
    vision_config=dict(
        hidden_size=18,
        intermediate_size=14,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=21,
        patch_size=7,
        hidden_act="relu",
    ),
)

TOWERS = {
    "siglip": Family(
        PARTS,
        names("Siglip", "Model", "ForImageClassification"),
        {"siglip": ("SiglipModel", "sigmoids of pairs; a query attends to all patches; what fills a text is read")},
        "t5",
        "none",
        small={
            "siglip-other": ("SiglipModel", OTHER, "towers of other widths; a projection; masked texts; other activations")
        },
    ),
    "siglip_text_model": Family(ACTIVE, ["SiglipTextModel"]),
    "siglip_vision_model": Family(ACTIVE, ["SiglipVisionModel"], sizes="vision"),
}


def fields_of(fields, tokenizer):
    """With the words of a tokenizer."""
    if tokenizer is None:
        return fields
    words = dict(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id)
    return fields | dict(text_config=fields["text_config"] | words)


def inputs_of(name, config, texts, floats):
    """Texts and pictures; the main case says nothing of what fills the texts."""
    side = config.vision_config.image_size
    if name == "siglip":
        texts = {"input_ids": texts["input_ids"]}
    return texts | {"pixel_values": floats(3, 3, side, side)}


def clap_fields(words, tokenizer):
    """CLAP, whose square holds the spectrogram in two parts, one below the other."""
    text = SIZES["encoder"] | dict(vocab_size=words, max_position_embeddings=40, projection_dim=8, hidden_size=8)
    text |= dict(intermediate_size=16, num_attention_heads=2)
    text |= {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("pad", "bos", "eos")}
    audio = dict(
        spec_size=32, num_mel_bins=16, patch_size=4, patch_stride=[4, 4], window_size=4, depths=[2, 2], projection_dim=8
    )
    audio |= dict(num_attention_heads=[2, 2], patch_embeds_hidden_size=8, hidden_size=16, num_hidden_layers=2, mlp_ratio=2.0)
    return dict(text_config=text, audio_config=audio, projection_dim=8)
