# SPDX-License-Identifier: Apache-2.0
"""Networks that see, at their real shapes with random weights: SigLIP's and ViT's towers, and DETR-ResNet-50."""
import functools
import os

from other_cases import make_tensors, save_once

PEERS = {"float32": ("f32", ("torch", "compile", "onnxruntime", "openvino")),
         "bfloat16": ("bf16", ("torch", "compile", "openvino")), "int8": ("int8", ("torch", "onnxruntime", "openvino"))}


def make_siglip(folder):
    """The tower of siglip-base-patch16-224 with its head, which looks at all patches."""

    def make():
        import transformers

        return transformers.SiglipVisionModel(transformers.SiglipVisionConfig())

    return save_once(os.path.join(folder, "siglip-base"), make)


def make_detr(folder):
    """facebook/detr-resnet-50, with the body as Transformers has it."""

    def make():
        import transformers

        body = transformers.ResNetConfig(out_features=["stage4"])
        return transformers.DetrForObjectDetection(transformers.DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=body, num_labels=91))

    return save_once(os.path.join(folder, "detr-r50"), make)


def pixels(rows, side, mask=False):
    def make(torch, generator):
        made = {"pixel_values": torch.rand(rows, 3, side, side, generator=generator)}
        return {**made, "pixel_mask": torch.ones(rows, side, side, dtype=torch.long)} if mask else made

    return make


def seeing_cases(folder, case_class, vit):
    """`vit`: what makes ViT-base; its cases in f32 are elsewhere."""
    later = functools.partial  # files are made when their case is raced
    cases = []

    def add(name, title, model, inputs, types, runs):
        for dtype in types:
            short, peers = PEERS[dtype]
            cases.append(case_class(f"{name}-{short}", f"{title} {short}", model, inputs, "forward", dtype, peers, runs))

    for rows, runs in ((1, 8), (8, 3)):
        images = later(make_tensors, folder, f"images-{rows}", pixels(rows, 224))
        add(f"siglip-{rows}", f"SigLIP-base, tower, {rows}x224x224", later(make_siglip, folder), images, PEERS, runs)
        add(f"vit-base-{rows}", f"ViT-base inference {rows}x224x224", vit, images, ("bfloat16", "int8"), runs)
    add("detr", "DETR-ResNet-50, one picture of 800x800,", later(make_detr, folder),
        later(make_tensors, folder, "picture-800", pixels(1, 800, True)), PEERS, 2)
    return cases
