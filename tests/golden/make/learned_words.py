# SPDX-License-Identifier: Apache-2.0
"""Pictures with words of textual inversion, in tests/golden/diffusion/sd-words and sdxl-words."""

import shutil

import diffusers
import torch
from safetensors.torch import save_file

from common import generator
from diffusion_pipelines import HOUSE, pndm, record, xl


def make(out):
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    folders = [out / "diffusion" / name for name in ("sd-words", "sdxl-words")]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    random = generator("learned words")
    vectors = lambda *shape: torch.empty(shape).normal_(generator=random)
    save_file({"<cat-toy>": vectors(2, 8)}, folders[0] / "cat.safetensors")
    torch.save({"<one>": vectors(8)}, folders[0] / "one.bin")
    kept = {"string_to_token": {"*": 265}, "string_to_param": {"*": torch.nn.Parameter(vectors(3, 8))}, "name": "inky", "step": 500, "sd_checkpoint": None}
    torch.save(kept, folders[0] / "inky.pt")
    runs = [
        dict(HOUSE, prompt="a <cat-toy> and <one>, in the Sea", textual_inversion=["cat.safetensors", "one.bin"], guidance_scale=2.0),
        dict(HOUSE, prompt="a red house, inky, of toys", textual_inversion=["inky.pt", "cat.safetensors"], textual_inversion_token=["inky", "toy"], negative_prompt="toys", guidance_scale=2.0),
        dict(HOUSE, prompt="a <cat-toy>", guidance_scale=2.0),
    ]
    record(out, "sd-words", pndm(), runs, ())
    save_file({"clip_l": vectors(2, 8), "clip_g": vectors(2, 6)}, folders[1] / "both.safetensors")
    runs = [
        dict(HOUSE, prompt="a photo of <thing>", textual_inversion=["both.safetensors"], textual_inversion_token=["<thing>"], guidance_scale=2.0),
        dict(HOUSE, prompt="a photo of <thing>", guidance_scale=2.0),
    ]
    record(out, "sdxl-words", xl(), runs, ())
