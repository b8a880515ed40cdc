# SPDX-License-Identifier: Apache-2.0
"""Encoders of patches that have more tokens before them than that of the class."""

from family import Family, names

TOKENS_BEFORE_PATCHES = {
    "deit": Family(
        dict(encoder_stride=8),
        names("DeiT", "Model", "ForImageClassification", "ForImageClassificationWithTeacher", "ForMaskedImageModeling"),
        {"deit-image-classification": ("DeiTForImageClassification", "a token that learned from a teacher")},
        sizes="vision",
    ),
    "dinov2_with_registers": Family(
        dict(image_size=28, patch_size=7, mlp_ratio=2, num_register_tokens=3, layerscale_value=0.7),
        names("Dinov2WithRegisters", "Model", "ForImageClassification"),
        {
            "dinov2-with-registers-image-classification": (
                "Dinov2WithRegistersForImageClassification",
                "tokens for notes; positions resampled with antialias for pictures that are no square",
            )
        },
        sizes="vision",
    ),
    "vit_mae": Family(
        dict(
            decoder_hidden_size=12,
            decoder_num_hidden_layers=1,
            decoder_num_attention_heads=3,
            decoder_intermediate_size=20,
            image_size=16,
            patch_size=4,
            norm_pix_loss=True,
        ),
        names("ViTMAE", "Model", "ForPreTraining"),
        {"vit-mae-pre-training": ("ViTMAEForPreTraining", "hidden patches are made up, in deviations of their own")},
        sizes="vision",
        more={
            "vit-mae-plain-pixels": (
                "ViTMAEForPreTraining",
                dict(norm_pix_loss=False, mask_ratio=0.4, num_hidden_layers=1, qkv_bias=False, image_size=12),
                "no biases of queries; five of nine patches are seen, pixels are made up as they are",
            )
        },
    ),
}
