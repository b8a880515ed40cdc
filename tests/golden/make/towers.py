# SPDX-License-Identifier: Apache-2.0
"""Towers of texts and of pictures that are trained to agree pair by pair: SigLIP, also for pictures of any form."""

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

# Of SigLIP 2: squares of 3 x 3 patches, of which positions of other forms are made.
FLEXIBLE = dict(
    text_config=SIZES["encoder"] | ACTIVE | dict(hidden_size=8, intermediate_size=16, num_attention_heads=2, vocab_size=60)
    | dict(pad_token_id=1, bos_token_id=2, eos_token_id=3),
    vision_config=dict(
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        patch_size=4,
        num_patches=9,
        hidden_act="gelu_pytorch_tanh",
    ),
)
FLEXIBLE_OTHER = dict(
    text_config=OTHER["text_config"] | dict(projection_size=8),
    vision_config=dict(
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=1,
        num_attention_heads=4,
        patch_size=3,
        num_patches=16,
        hidden_act="relu",
        layer_norm_eps=1e-5,
    ),
)
FORMS = {"siglip2": [(2, 3), (1, 8), (4, 2)]}  # rows and columns of the pictures' patches, filled up to eight

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
    "siglip2": Family(
        FLEXIBLE,
        names("Siglip2", "Model", "ForImageClassification"),
        {"siglip2": ("Siglip2Model", "patches of pictures of three forms; positions resampled from a square")},
        "t5",
        "none",
        small={"siglip2-other": ("Siglip2Model", FLEXIBLE_OTHER, "larger and smaller forms, none masked; other activations")},
    ),
    "siglip2_text_model": Family(ACTIVE, ["Siglip2TextModel"]),
    "siglip2_vision_model": Family(FLEXIBLE["vision_config"], ["Siglip2VisionModel"], sizes="none"),
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
    if name.startswith("siglip2"):
        return texts | patches_of(name, config.vision_config, floats)
    side = config.vision_config.image_size
    if name == "siglip":
        texts = {"input_ids": texts["input_ids"]}
    return texts | {"pixel_values": floats(3, 3, side, side)}


def patches_of(name, config, floats):
    forms = torch.tensor(FORMS.get(name, [(5, 1), (3, 3), (2, 6)]))
    count = int(forms.prod(-1).max())
    pixels = floats(len(forms), count, 3 * config.patch_size**2)
    mask = (torch.arange(count) < forms.prod(-1, keepdim=True)).long()
    inputs = {"pixel_values": pixels * mask[..., None], "spatial_shapes": forms}
    return inputs | {"pixel_attention_mask": mask}


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
