# SPDX-License-Identifier: Apache-2.0
"""Networks of diffusion models: Stable Diffusion 1.5's U-Net and decoder at their real shapes, with random weights."""
import functools
import os

from other_cases import make_tensors


def save_part(path, make):
    """The part of a pipeline that `make` gives, with random weights from one seed, as diffusers keeps it."""
    if not os.path.exists(os.path.join(path, "diffusion_pytorch_model.safetensors")):
        import torch

        torch.manual_seed(0)
        make().save_pretrained(path)
    return path


def make_unet(folder):
    def make():
        import diffusers

        return diffusers.UNet2DConditionModel(
            sample_size=64, cross_attention_dim=768, attention_head_dim=8, block_out_channels=(320, 640, 1280, 1280),
            down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
            up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3)

    return save_part(os.path.join(folder, "sd15", "unet"), make)


def make_autoencoder(folder):
    def make():
        import diffusers

        return diffusers.AutoencoderKL(
            sample_size=512, latent_channels=4, layers_per_block=2, block_out_channels=(128, 256, 512, 512),
            down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4)

    return save_part(os.path.join(folder, "sd15", "vae"), make)


def noisy_latents(pixels):
    """A step with guidance: the latents twice, beside two texts of 77 tokens."""

    def make(torch, generator):
        size = pixels // 8
        return {"sample": torch.randn(1, 4, size, size, generator=generator).repeat(2, 1, 1, 1),
                "timestep": torch.tensor([481, 481]),
                "encoder_hidden_states": torch.randn(2, 77, 768, generator=generator)}

    return make


def drawn_latents(pixels):
    def make(torch, generator):
        return {"latents": torch.randn(1, 4, pixels // 8, pixels // 8, generator=generator)}

    return make


def picture_cases(folder, case_class):
    later = functools.partial  # files are made when their case is raced
    cases = []
    for pixels in (256, 512):
        parts = [("unet", "U-Net, a step with guidance,", make_unet, noisy_latents(pixels), ("float32", "bfloat16", "int8")),
                 ("decoder", "decoder,", make_autoencoder, drawn_latents(pixels), ("float32", "bfloat16"))]
        for part, title, model, inputs, types in parts:
            tensors = later(make_tensors, folder, f"{part}-{pixels}", inputs)
            for dtype in types:
                short = {"float32": "f32", "bfloat16": "bf16"}.get(dtype, dtype)
                peers = ("torch", "openvino") if dtype == "int8" else ("torch", "compile", "openvino")
                cases.append(case_class(f"sd15-{part}-{pixels}-{short}", f"SD 1.5 {title} {pixels} pixels {short}",
                                        later(model, folder), tensors, "forward", dtype, peers))
    return cases
