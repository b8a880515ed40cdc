# SPDX-License-Identifier: Apache-2.0
"""Ten updates of each way to train diffusion, in tests/golden/diffusion/training: the loops of diffusers' scripts, with draws row by row.

A row of a batch has a generator of its own, whose seed follows from those of the run, of the batch and of the place of the row; it draws
the mirror, the noise of the autoencoder, the noise, that of channels and of the input, and the timestep, in this order.
"""

import shutil

import diffusers
import numpy
import torch
import torch.nn.functional as F
from diffusers.training_utils import EMAModel, compute_snr
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from PIL import Image
from safetensors.torch import save_file

from common import GOLDEN, generator, write_json
from diffusion import CONTROL, PLAIN, filled
from diffusion_pipelines import pndm, xl
from models import rounded_up

SEED, UPDATES, BATCH, RATE = 5, 10, 2, 1e-3
# The sentences of textual_inversion for things.
THINGS = """a photo of a {}|a rendering of a {}|a cropped photo of the {}|the photo of a {}|a photo of a clean {}|a photo of a dirty {}
a dark photo of the {}|a photo of my {}|a photo of the cool {}|a close-up photo of a {}|a bright photo of the {}|a cropped photo of a {}
a photo of the {}|a good photo of the {}|a photo of one {}|a close-up photo of the {}|a rendition of the {}|a photo of the clean {}
a rendition of a {}|a photo of a nice {}|a good photo of a {}|a photo of the nice {}|a photo of the small {}|a photo of the weird {}
a photo of the large {}|a photo of a cool {}|a photo of a small {}""".replace("\n", "|").split("|")
CAPTIONS = ["a red house", "a photo of a cat", "the sea", "a dog"]


def pictures(folder):
    """Four square pictures; and as small grey ones."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for i in range(4):
        y, x = numpy.mgrid[0:16, 0:16]
        values = numpy.stack([x * (7 + i), y * (9 - i), (x * y * (i + 1)) % 256], -1).astype("uint8")
        made.append(Image.fromarray(values))
        made[-1].save(folder / f"{i}.png")
    lines = "".join(f'{{"file_name": "{i}.png", "text": "{text}", "conditioning_image": "{3 - i}.png"}}\n' for i, text in enumerate(CAPTIONS))
    (folder / "metadata.jsonl").write_text(lines)
    small = [one.resize((8, 8), Image.BILINEAR).convert("L") for one in made]
    for others, name in ((made[:2], "instance"), (made[2:], "class"), (small, "small")):
        (folder.parent / name).mkdir()
        for i, one in enumerate(others):
            one.save(folder.parent / name / f"{i}.png")
    return [signed(numpy.asarray(one)) for one in made], [signed(numpy.asarray(one)[..., None]) for one in small]


def signed(levels):
    return torch.from_numpy(levels.copy()).permute(2, 0, 1).float().div(255).sub(0.5).div(0.5)


def of_row(draw, place):
    """As random_of_row in the sources; the seed's low 32 bits count."""
    return torch.Generator().manual_seed((((SEED * 0x9E3779B9 + draw) * 0x85EBCA6B) + place) & 0xFFFFFFFF)


def drawn(shape, randoms, steps, settings):
    noise = torch.cat([torch.randn((1, *shape), generator=g) for g in randoms])
    if settings.get("noise_offset"):
        noise = noise + settings["noise_offset"] * torch.cat([torch.randn((1, shape[0], 1, 1), generator=g) for g in randoms])
    other = noise
    if settings.get("input_perturbation"):
        other = noise + settings["input_perturbation"] * torch.cat([torch.randn((1, *shape), generator=g) for g in randoms])
    return noise, other, torch.cat([torch.randint(0, steps, (1,), generator=g) for g in randoms])


def weighed(scheduler, said, target, timesteps, settings, counts=None):
    """The loss of the scripts; `counts`: how many rows of the batch are of the instance, the others are of the class."""
    loss = F.mse_loss(said, target, reduction="none").mean(dim=(1, 2, 3))
    own = loss[:counts] if counts else loss
    if settings.get("snr_gamma"):
        snr = compute_snr(scheduler, timesteps)[: len(own)]
        weights = torch.minimum(snr, torch.full_like(snr, settings["snr_gamma"]))
        own = own * weights / (snr + 1 if scheduler.config.prediction_type == "v_prediction" else snr)
    total = own.mean()
    return total + settings.get("prior_loss_weight", 1.0) * loss[counts:].mean() if counts else total


def run(network, trained, loss_of, rows, batches, ema=None, clip=1.0, decay=1e-2):
    """AdamW over all weights alike, as the scripts have it; the order of rows is that of a run without shuffling."""
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=decay)
    average = EMAModel(network.parameters(), **ema) if ema is not None else None
    losses = []
    for update in range(UPDATES):
        place = update % batches * BATCH
        loss = loss_of([i % rows for i in range(place, place + BATCH)], update)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(trained, clip)
        optimizer.step()
        optimizer.zero_grad()
        if average:
            average.step(network.parameters())
        losses.append(float(loss))
    if average:
        average.copy_to(network.parameters())
    return losses


class Latent:
    """The parts of a pipeline in a type, and the losses of the scripts that train one of them."""

    def __init__(self, dtype, prediction_type=None, made_by=pndm):
        self.dtype, self.pipe, self.is_xl = dtype, made_by(), made_by is xl
        for part in self.pipe.components.values():
            if isinstance(part, torch.nn.Module):
                part.to(dtype).eval().requires_grad_(False)
        self.scheduler = diffusers.DDPMScheduler.from_config(self.pipe.scheduler.config)
        if prediction_type:
            self.scheduler.register_to_config(prediction_type=prediction_type)

    def latents(self, pixels, randoms):
        with torch.no_grad():
            moments = self.pipe.vae.encode(pixels.to(self.dtype)).latent_dist
        noise = torch.cat([torch.randn((1, *moments.mean.shape[1:]), generator=g) for g in randoms])
        return (moments.mean + moments.std * noise) * self.pipe.vae.config.scaling_factor

    def states(self, texts):
        def ids(words):
            return words(texts, max_length=words.model_max_length, padding="max_length", truncation=True, return_tensors="pt").input_ids

        if not self.is_xl:
            return self.pipe.text_encoder(ids(self.pipe.tokenizer))[0], {}
        first = self.pipe.text_encoder(ids(self.pipe.tokenizer), output_hidden_states=True)
        second = self.pipe.text_encoder_2(ids(self.pipe.tokenizer_2), output_hidden_states=True)
        extents = torch.tensor([[16, 16, 0, 0, 16, 16]] * len(texts)).to(self.dtype)
        states = torch.cat([first.hidden_states[-2], second.hidden_states[-2]], -1)
        return states, dict(added_cond_kwargs={"text_embeds": second[0], "time_ids": extents})

    def loss(self, pixels, texts, randoms, settings, counts=None, **given):
        latents = self.latents(pixels, randoms)
        noise, other, timesteps = drawn(latents.shape[1:], randoms, self.scheduler.config.num_train_timesteps, settings)
        noise, other = noise.to(self.dtype), other.to(self.dtype)
        noisy = self.scheduler.add_noise(latents, other, timesteps)
        of_noise = self.scheduler.config.prediction_type == "epsilon"
        target = noise if of_noise else self.scheduler.get_velocity(latents, noise, timesteps)
        states, more = self.states(texts)
        if given:
            more = given["residuals"](noisy, timesteps, states)
        said = self.pipe.unet(noisy, timesteps, states, return_dict=False, **more)[0]
        return weighed(self.scheduler, said, target, timesteps, settings, counts)


def randoms_of(update, rows):
    return [of_row(update, i) for i in range(rows)]


def kept(state, every):
    """A few tensors of many: the first, and then each `every`th."""
    return {name: value.float().contiguous() for i, (name, value) in enumerate(sorted(state.items())) if i % every == 0}


def record(folder, name, about, made, every=9):
    """Losses and weights in float64. `made`: those of a type. float32 is as far from them as its sums are: ten times that, or 1e-5."""
    losses, state = made(torch.float64)
    others, other_state = made(torch.float32)
    far = numpy.maximum.accumulate([abs(a - b) / abs(b) for a, b in zip(others, losses)])
    state, other_state = kept(state, every), kept(other_state, every)
    moved = max(float((state[key] - other_state[key]).abs().max()) for key in state)
    save_file(state, folder / f"{name}.safetensors")
    bounds = {"loss": losses, "loss_rtol": [rounded_up(max(1e-5, 10 * float(one))) for one in far], "weights_atol": rounded_up(max(1e-5, 10 * moved))}
    write_json(folder / f"{name}.json", {"made_by": f"diffusers {diffusers.__version__}", **about, **bounds})


def flags_of(settings, **more):
    return [text for key, value in (settings | more).items() for text in (f"--{key}", str(value).lower() if isinstance(value, bool) else str(value))]


def whole(folder, name, settings, images, ema=None, made_by=pndm):
    mirrors = settings.get("random_flip", False)

    def made(dtype):
        parts = Latent(dtype, settings.get("prediction_type"), made_by)
        unet = parts.pipe.unet.train().requires_grad_(True)

        def loss_of(rows, update):
            randoms = randoms_of(update, len(rows))
            mirrored = [mirrors and float(torch.rand((1,), generator=g)) < 0.5 for g in randoms]
            pixels = torch.stack([images[i].flip(-1) if turned else images[i] for i, turned in zip(rows, mirrored)])
            return parts.loss(pixels, [CAPTIONS[i] for i in rows], randoms, settings)

        return run(unet, list(unet.parameters()), loss_of, 4, 2, ema), unet.state_dict()

    flags = flags_of(settings, train_data_dir="pictures", resolution=16, use_ema=ema is not None)
    record(folder, name, {"task": "text-to-image", "model": "sdxl/model" if made_by is xl else "sd-pndm/model", "flags": flags}, made)


def lora(folder, images):
    def made(dtype):
        parts = Latent(dtype)
        unet = parts.pipe.unet
        unet.add_adapter(LoraConfig(r=2, lora_alpha=2, init_lora_weights="gaussian", target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
        random = generator("lora training")
        trained = [value for value in unet.parameters() if value.requires_grad]
        with torch.no_grad():
            for value in trained:
                value.copy_(torch.empty(value.shape).normal_(generator=random) * 0.3)
        unet.to(dtype)
        start = {key: value.float().clone() for key, value in get_peft_model_state_dict(unet).items()}
        save_file(start, folder / "lora-start.safetensors")

        def loss_of(rows, update):
            return parts.loss(torch.stack([images[i] for i in rows]), [CAPTIONS[i] for i in rows], randoms_of(update, len(rows)), {})

        return run(unet, trained, loss_of, 4, 2), get_peft_model_state_dict(unet)

    flags = flags_of({}, train_data_dir="pictures", resolution=16, use_peft=True, rank=2)
    record(folder, "lora", {"task": "text-to-image", "model": "sd-pndm/model", "flags": flags}, made)


def dreambooth(folder, images):
    settings = {"prior_loss_weight": 0.7, "snr_gamma": 3.0}
    texts = ["a photo of sks dog"] * 2 + ["a dog"] * 2

    def made(dtype):
        parts = Latent(dtype)
        unet = parts.pipe.unet.train().requires_grad_(True)

        def loss_of(chosen, update):
            rows = [i % 2 for i in chosen] + [2 + i % 2 for i in chosen]
            return parts.loss(torch.stack([images[i] for i in rows]), [texts[i] for i in rows], randoms_of(update, len(rows)), settings, len(chosen))

        return run(unet, list(unet.parameters()), loss_of, 2, 1), unet.state_dict()

    given = dict(instance_prompt=texts[0], class_prompt=texts[2], with_prior_preservation=True, num_class_images=2, resolution=16)
    flags = flags_of(settings, instance_data_dir="instance", class_data_dir="class", **given)
    record(folder, "dreambooth", {"task": "dreambooth", "model": "sd-pndm/model", "flags": flags}, made)


def unconditional(folder, name, images, prediction_type, ema=None):
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=50, beta_schedule="squaredcos_cap_v2", prediction_type=prediction_type)

    def made(dtype):
        network = filled(diffusers.UNet2DModel(**PLAIN), "ddpm unet").to(dtype).train().requires_grad_(True)
        size, channels = network.config.sample_size, network.config.in_channels

        def loss_of(chosen, update):
            clean = torch.stack([images[i] for i in chosen]).to(dtype)
            assert clean.shape[1:] == (channels, size, size), clean.shape
            noise, _, timesteps = drawn(clean.shape[1:], randoms_of(update, len(chosen)), 50, {})
            noise = noise.to(dtype)
            said = network(scheduler.add_noise(clean, noise, timesteps), timesteps).sample
            if prediction_type == "epsilon":
                return F.mse_loss(said, noise)
            alpha = scheduler.alphas_cumprod[timesteps].reshape(-1, 1, 1, 1)
            return (alpha / (1 - alpha) * F.mse_loss(said, clean, reduction="none")).mean()

        return run(network, list(network.parameters()), loss_of, 4, 2, ema), network.state_dict()

    given = dict(ddpm_num_steps=50, ddpm_beta_schedule="squaredcos_cap_v2", prediction_type=prediction_type, resolution=8)
    if ema:
        given.update(use_ema=True, ema_max_decay=ema["decay"])
    usual = dict(adam_beta1=0.9, weight_decay=1e-2, lr_scheduler="constant")
    about = {"task": "unconditional-image-generation", "model": "ddpm/model/unet", "flags": flags_of(given, train_data_dir="small", **usual)}
    record(folder, name, about, made)


def controlnet(folder, images):
    """The pictures that it sees are those of the rows, from the last to the first."""

    def made(dtype):
        parts = Latent(dtype)
        network = filled(diffusers.ControlNetModel(**CONTROL), "sd-controlnet").to(dtype).train().requires_grad_(True)

        def loss_of(rows, update):
            seen = torch.stack([images[3 - i] for i in rows]).to(dtype).add(1).div(2)

            def residuals(noisy, timesteps, states):
                down, middle = network(noisy, timesteps, states, seen, return_dict=False)
                return dict(down_block_additional_residuals=down, mid_block_additional_residual=middle)

            texts, randoms = [CAPTIONS[i] for i in rows], randoms_of(update, len(rows))
            return parts.loss(torch.stack([images[i] for i in rows]), texts, randoms, {}, residuals=residuals)

        return run(network, list(network.parameters()), loss_of, 4, 2), network.state_dict()

    given = dict(train_data_dir="pictures", controlnet_model_name_or_path="sd-controlnet/model/controlnet", resolution=16)
    record(folder, "controlnet", {"task": "text-to-image-control", "model": "sd-pndm/model", "flags": flags_of(given)}, made)


def word(folder, images):
    """textual_inversion: all vectors of the text encoder are trained, and all but those of the word put back after each update."""
    token, first, sentences = "<cat-toy>", "a", THINGS

    def made(dtype):
        parts = Latent(dtype)
        words, encoder = parts.pipe.tokenizer, parts.pipe.text_encoder
        before = len(words)
        words.add_tokens([token, f"{token}_1"])
        encoder.resize_token_embeddings(len(words))
        vectors = encoder.get_input_embeddings().weight
        (start,) = words.encode(first, add_special_tokens=False)
        with torch.no_grad():
            vectors[before:] = vectors[start].clone()
        vectors.requires_grad_(True)
        kept = vectors[:before].detach().clone()

        def loss_of(chosen, update):
            with torch.no_grad():
                vectors[:before] = kept
            randoms = randoms_of(update, len(chosen))
            pixels, texts = [], []
            for i, random in zip(chosen, randoms):
                mirrored = float(torch.rand((1,), generator=random)) < 0.5
                pixels.append(images[i].flip(-1) if mirrored else images[i])
                text = sentences[int(torch.randint(0, len(sentences), (1,), generator=random))]
                texts.append(text.format(f"{token} {token}_1"))
            return parts.loss(torch.stack(pixels), texts, randoms, {})

        losses = run(encoder, [vectors], loss_of, 2, 100, clip=None)
        return losses, {token: vectors[before:].detach().clone()}

    given = dict(train_data_dir="instance", placeholder_token=token, initializer_token=first, num_vectors=2, resolution=16)
    record(folder, "word", {"task": "textual-inversion", "model": "sd-pndm/model", "flags": flags_of(given)}, made)


def make(out):
    folder = out / "diffusion" / "training"
    shutil.rmtree(folder, ignore_errors=True)
    images, small = pictures(folder / "pictures")
    whole(folder, "plain", {}, images)
    whole(folder, "velocity", {"prediction_type": "v_prediction", "snr_gamma": 5.0, "noise_offset": 0.1}, images, {})
    whole(folder, "disturbed", {"input_perturbation": 0.1, "snr_gamma": 2.0}, images)
    whole(folder, "xl", {"random_flip": True, "snr_gamma": 5.0}, images, made_by=xl)
    lora(folder, images)
    dreambooth(folder, images)
    word(folder, images)
    controlnet(folder, images)
    unconditional(folder, "unconditional", small, "epsilon", dict(decay=0.99, use_ema_warmup=True, inv_gamma=1.0, power=0.75))
    unconditional(folder, "unconditional-sample", small, "sample")


if __name__ == "__main__":
    torch.set_num_threads(1)
    make(GOLDEN)
