# SPDX-License-Identifier: Apache-2.0
"""Ten updates of Stable Diffusion 3 and FLUX, in tests/golden/diffusion/training: the loops of train_dreambooth_sd3, _flux and of LoRA.

A row draws, behind what those of U-Nets draw (diffusion_training.py), the place between the noise and the picture in place of a timestep.
"""

import numpy
import torch
from diffusers.training_utils import compute_loss_weighting_for_sd3
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from PIL import Image
from safetensors.torch import save_file

from common import generator
from diffusion_pipelines import flux, third
from diffusion_training import flags_of, randoms_of, record, run, signed

TEXTS = ["a photo of sks dog", "a dog"]
DECAY = 1e-4
TARGETS = {
    "sd3": ["attn.add_k_proj", "attn.add_q_proj", "attn.add_v_proj", "attn.to_add_out", "attn.to_k", "attn.to_out.0", "attn.to_q", "attn.to_v"],
    "flux": ["attn.to_k", "attn.to_q", "attn.to_v", "attn.to_out.0", "attn.add_k_proj", "attn.add_q_proj", "attn.add_v_proj", "attn.to_add_out"]
    + ["ff.net.0.proj", "ff.net.2", "ff_context.net.0.proj", "ff_context.net.2"],
}


def drawn_place(scheme, random, settings):
    if scheme == "logit_normal":
        normal = torch.normal(mean=settings.get("logit_mean", 0.0), std=settings.get("logit_std", 1.0), size=(1,), generator=random)
        return torch.sigmoid(normal)
    u = torch.rand((1,), generator=random)
    if scheme == "mode":
        return 1 - u - settings.get("mode_scale", 1.29) * (torch.cos(torch.pi * u / 2) ** 2 - 1 + u)
    return u


class Flow:
    """The parts of a pipeline in a type, and the loss of the scripts."""

    def __init__(self, dtype, kind):
        self.dtype, self.packs = dtype, kind == "flux"
        self.pipe = flux() if self.packs else third()
        for part in self.pipe.components.values():
            if isinstance(part, torch.nn.Module):
                part.to(dtype).eval().requires_grad_(False)

    def latents(self, pixels, randoms):
        config = self.pipe.vae.config
        with torch.no_grad():
            moments = self.pipe.vae.encode(pixels.to(self.dtype)).latent_dist
        noise = torch.cat([torch.randn((1, *moments.mean.shape[1:]), generator=g) for g in randoms])
        return (moments.mean + moments.std * noise - config.shift_factor) * config.scaling_factor

    def texts(self, prompts, tokens):
        with torch.no_grad():
            if self.packs:
                states, pooled, places = self.pipe.encode_prompt(prompts, None, max_sequence_length=tokens)
                return dict(encoder_hidden_states=states.to(self.dtype), pooled_projections=pooled.to(self.dtype), txt_ids=places)
            states, _, pooled, _ = self.pipe.encode_prompt(prompts, None, None, do_classifier_free_guidance=False, max_sequence_length=tokens)
            return dict(encoder_hidden_states=states.to(self.dtype), pooled_projections=pooled.to(self.dtype))

    def said(self, noisy, times, prompts, settings):
        given = self.texts(prompts, settings["max_sequence_length"])
        if not self.packs:
            return self.pipe.transformer(hidden_states=noisy, timestep=times, return_dict=False, **given)[0]
        rows, channels, height, width = noisy.shape
        guidance = torch.full((rows,), settings.get("guidance_scale", 3.5))
        packed = self.pipe._pack_latents(noisy, rows, channels, height, width)
        places = self.pipe._prepare_latent_image_ids(rows, height // 2, width // 2, "cpu", torch.float32)
        answer = self.pipe.transformer(hidden_states=packed, timestep=times / 1000, guidance=guidance, img_ids=places, return_dict=False, **given)[0]
        scale = self.pipe.vae_scale_factor
        return self.pipe._unpack_latents(answer, height * scale, width * scale, scale)

    def loss(self, pixels, prompts, randoms, settings, counts=None):
        scheme = settings.get("weighting_scheme", "none" if self.packs else "logit_normal")
        preconditions = not self.packs and settings.get("precondition_outputs", True)
        clean = self.latents(pixels, randoms)
        noise = torch.cat([torch.randn((1, *clean.shape[1:]), generator=g) for g in randoms]).to(self.dtype)
        schedule = type(self.pipe.scheduler).from_config(self.pipe.scheduler.config)
        places = (torch.cat([drawn_place(scheme, g, settings) for g in randoms]) * 1000).long()
        times, sigmas = schedule.timesteps[places], schedule.sigmas[places].to(self.dtype)[:, None, None, None]
        noisy = (1.0 - sigmas) * clean + sigmas * noise
        answer, target = self.said(noisy, times, prompts, settings), noise - clean
        if preconditions:
            answer, target = answer * (-sigmas) + noisy, clean
        weights = compute_loss_weighting_for_sd3(weighting_scheme=scheme, sigmas=sigmas)
        loss = (weights.to(self.dtype) * (answer - target) ** 2).reshape(len(randoms), -1).mean(1)
        if not counts:
            return loss.mean()
        return loss[:counts].mean() + settings.get("prior_loss_weight", 1.0) * loss[counts:].mean()


def dreambooth(folder, name, kind, settings, images, rank=None):
    """`rank`: of LoRA, whose alpha is the rank of Stable Diffusion 3, and 4 of FLUX."""
    with_class = "prior_loss_weight" in settings

    def made(dtype):
        parts = Flow(dtype, kind)
        network = parts.pipe.transformer
        if rank:
            alpha = 4 if kind == "flux" else rank
            network.add_adapter(LoraConfig(r=rank, lora_alpha=alpha, init_lora_weights="gaussian", target_modules=TARGETS[kind]))
            trained = [value for value in network.parameters() if value.requires_grad]
            random = generator(f"{name} training")
            with torch.no_grad():
                for value in trained:
                    value.copy_(torch.empty(value.shape).normal_(generator=random) * 0.3)
            network.to(dtype)
            save_file({key: value.float().clone() for key, value in get_peft_model_state_dict(network).items()}, folder / f"{name}-start.safetensors")
        else:
            network.train().requires_grad_(True)
            trained = list(network.parameters())

        def loss_of(chosen, update):
            rows = [i % 2 for i in chosen] + ([2 + i % 2 for i in chosen] if with_class else [])
            randoms = randoms_of(update, len(rows))
            turned = [settings.get("random_flip", False) and row < 2 and float(torch.rand((1,), generator=g)) < 0.5 for row, g in zip(rows, randoms)]
            pixels = torch.stack([images[row].flip(-1) if flip else images[row] for row, flip in zip(rows, turned)])
            return parts.loss(pixels, [TEXTS[row // 2] for row in rows], randoms, settings, len(chosen) if with_class else None)

        losses = run(network, trained, loss_of, 2, 1, decay=DECAY)
        return losses, get_peft_model_state_dict(network) if rank else network.state_dict()

    given = dict(instance_data_dir="instance", instance_prompt=TEXTS[0], resolution=16)
    if with_class:
        given.update(class_data_dir="class", class_prompt=TEXTS[1], with_prior_preservation=True, num_class_images=2)
    if rank:
        given.update(use_peft=True, rank=rank)
    record(folder, name, {"task": "dreambooth", "model": f"{kind}/model", "flags": flags_of(settings, **given)}, made, 9 if rank else 45)


def make(out):
    """Behind diffusion_training, whose pictures these are."""
    folder = out / "diffusion" / "training"
    images = [signed(numpy.asarray(Image.open(folder / part / f"{i}.png").convert("RGB"))) for part in ("instance", "class") for i in range(2)]
    few = dict(max_sequence_length=8)
    dreambooth(folder, "sd3", "sd3", dict(few, random_flip=True), images)
    dreambooth(folder, "sd3-lora", "sd3", dict(few, weighting_scheme="mode", mode_scale=1.1, precondition_outputs=False, prior_loss_weight=0.7), images, 2)
    dreambooth(folder, "flux", "flux", dict(few, weighting_scheme="cosmap", prior_loss_weight=0.6), images)
    dreambooth(folder, "flux-lora", "flux", dict(few, weighting_scheme="sigma_sqrt", guidance_scale=2.5, random_flip=True), images, 2)


if __name__ == "__main__":
    from common import GOLDEN

    make(GOLDEN)
