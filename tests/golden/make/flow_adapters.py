# SPDX-License-Identifier: Apache-2.0
"""Pictures of FLUX and Stable Diffusion 3 with files of LoRA, in tests/golden/diffusion/flux-lora and sd3-lora."""

import json
import shutil

import diffusers
import torch
from safetensors.torch import save_file

from common import generator
from diffusion_pipelines import HOUSE, flux, lora_of, record, third


def peft(pipe, path, modules, alphas, name):
    """As save_lora_weights names the factors; `alphas`: of each part, in the metadata."""
    tensors, said = {}, {}
    for part, ends in modules.items():
        for key, (down, up) in lora_of(getattr(pipe, part), f"{name} {part}", ends, 2).items():
            tensors[f"{part}.{key}.lora_A.weight"], tensors[f"{part}.{key}.lora_B.weight"] = down, up
        if part in alphas:
            said.update({f"{part}.r": 2, f"{part}.lora_alpha": alphas[part], f"{part}.target_modules": list(ends)})
    save_file(tensors, path, {"format": "pt", **({"lora_adapter_metadata": json.dumps(said)} if said else {})})


def kohya_of_flux(pipe, path):
    """By the names of the original files, in which queries, keys and values are one weight."""
    random = generator("lora kohya flux")
    normal = lambda *shape: torch.empty(shape).normal_(generator=random) * 0.5
    network, encoder = pipe.transformer, pipe.text_encoder
    width = network.inner_dim
    sizes = {
        "lora_unet_double_blocks_0_img_attn_qkv": (3 * width, width),
        "lora_unet_double_blocks_0_txt_attn_qkv": (3 * width, width),
        "lora_unet_double_blocks_0_img_attn_proj": (width, width),
        "lora_unet_double_blocks_0_txt_mlp_0": (4 * width, width),
        "lora_unet_double_blocks_0_img_mlp_2": (width, 4 * width),
        "lora_unet_double_blocks_0_txt_mod_lin": (6 * width, width),
        "lora_unet_single_blocks_0_linear2": (width, 5 * width),
        "lora_unet_single_blocks_0_modulation_lin": (3 * width, width),
        "lora_te1_text_model_encoder_layers_0_self_attn_k_proj": (encoder.config.hidden_size,) * 2,
        # Without the layer behind the attention diffusers does not find those before it.
        "lora_te1_text_model_encoder_layers_0_self_attn_out_proj": (encoder.config.hidden_size,) * 2,
        "lora_te1_text_model_encoder_layers_1_mlp_fc2": (encoder.config.hidden_size, encoder.config.intermediate_size),
    }
    tensors = {}
    for name, (rows, columns) in sizes.items():
        tensors[name + ".lora_down.weight"], tensors[name + ".lora_up.weight"] = normal(2, columns), normal(rows, 2)
        tensors[name + ".alpha"] = torch.tensor(1.0)
    save_file(tensors, path, {"format": "pt"})


def make(out):
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    for name in ("flux-lora", "sd3-lora"):
        shutil.rmtree(out / "diffusion" / name, ignore_errors=True)
        (out / "diffusion" / name).mkdir(parents=True)
    pipe, folder = flux(), out / "diffusion" / "flux-lora"
    modules = {"transformer": ("attn.to_q", "attn.add_v_proj", "ff.net.2", "proj_mlp", "x_embedder", "norm_out.linear"), "text_encoder": ("q_proj", "fc1")}
    peft(pipe, folder / "peft.safetensors", modules, {"transformer": 5, "text_encoder": 1}, "lora flux")
    kohya_of_flux(pipe, folder / "kohya.safetensors")
    runs = [
        dict(HOUSE, lora=["peft.safetensors"], lora_scale=[1.0]),
        dict(HOUSE, lora=["peft.safetensors", "kohya.safetensors"], lora_scale=[0.7, -0.4], guidance_scale=2.0),
        dict(HOUSE),
    ]
    record(out, "flux-lora", pipe, runs, ())
    pipe, folder = third(), out / "diffusion" / "sd3-lora"
    modules = {"transformer": ("attn.to_q", "attn.add_k_proj", "norm1_context.linear", "proj_out"), "text_encoder": ("q_proj", "fc1"), "text_encoder_2": ("v_proj",)}
    peft(pipe, folder / "peft.safetensors", modules, {"transformer": 3, "text_encoder": 1, "text_encoder_2": 4}, "lora sd3")
    peft(pipe, folder / "plain.safetensors", {"transformer": ("attn.to_v", "ff.net.2")}, {}, "lora plain sd3")
    runs = [
        dict(HOUSE, lora=["peft.safetensors"], lora_scale=[1.0], guidance_scale=2.0),
        dict(HOUSE, lora=["plain.safetensors", "peft.safetensors"], lora_scale=[0.7, -0.4], guidance_scale=1.0),
        dict(HOUSE, guidance_scale=2.0),
    ]
    record(out, "sd3-lora", pipe, runs, ())
