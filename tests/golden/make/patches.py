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
}
