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
from diffusion import PLAIN
from diffusion_pipelines import filled, pndm

SEED, UPDATES, BATCH, RATE = 5, 10, 2, 1e-3
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
    lines = "".join(f'{{"file_name": "{i}.png", "text": "{text}"}}\n' for i, text in enumerate(CAPTIONS))
    (folder / "metadata.jsonl").write_text(lines)
    return [signed(numpy.asarray(one)) for one in made], [signed(numpy.asarray(one.resize((8, 8), Image.BILINEAR).convert("L"))[..., None]) for one in made]


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


def run(network, trained, loss_of, settings, rows, batches):
    """AdamW over all weights alike, as the scripts have it; the order of rows is that of a run without shuffling."""
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=1e-2)
    average = EMAModel(network.parameters(), **settings["ema"]) if "ema" in settings else None
    curve = {"loss": [], "grad_norm": []}
    for update in range(UPDATES):
        place = update % batches * BATCH
        chosen = [i % rows for i in range(place, place + BATCH)]
        loss = loss_of(chosen, update)
        loss.backward()
        curve["grad_norm"].append(float(torch.nn.utils.clip_grad_norm_(trained, 1.0)))
        optimizer.step()
        optimizer.zero_grad()
        if average:
            average.step(network.parameters())
        curve["loss"].append(float(loss))
    if average:
        average.copy_to(network.parameters())
    return curve


def latents_of(pipe, pixels, randoms):
    with torch.no_grad():
        moments = pipe.vae.encode(pixels).latent_dist
    noise = torch.cat([torch.randn((1, *moments.mean.shape[1:]), generator=g) for g in randoms])
    return (moments.mean + moments.std * noise) * pipe.vae.config.scaling_factor


def text_states(pipe, texts):
    ids = pipe.tokenizer(texts, max_length=pipe.tokenizer.model_max_length, padding="max_length", truncation=True, return_tensors="pt").input_ids
    with torch.no_grad():
        return pipe.text_encoder(ids)[0]


def latent_loss(pipe, images, texts, settings, pick=lambda rows: (rows, None)):
    scheduler = diffusers.DDPMScheduler.from_config(pipe.scheduler.config)
    if settings.get("prediction_type"):
        scheduler.register_to_config(prediction_type=settings["prediction_type"])

    def loss_of(chosen, update):
        rows, counts = pick(chosen)
        randoms = [of_row(update, i) for i in range(len(rows))]
        latents = latents_of(pipe, torch.stack([images[i] for i in rows]), randoms)
        noise, other, timesteps = drawn(latents.shape[1:], randoms, scheduler.config.num_train_timesteps, settings)
        noisy = scheduler.add_noise(latents, other, timesteps)
        target = noise if scheduler.config.prediction_type == "epsilon" else scheduler.get_velocity(latents, noise, timesteps)
        states = text_states(pipe, [texts[i] for i in rows])
        said = pipe.unet(noisy, timesteps, states, return_dict=False)[0]
        return weighed(scheduler, said, target, timesteps, settings, counts)

    return loss_of


def kept(state):
    """A few tensors of many: the first and every ninth."""
    return {name: value.contiguous() for i, (name, value) in enumerate(sorted(state.items())) if i % 9 == 0}


def record(folder, name, settings, curve, state):
    save_file(kept(state), folder / f"{name}.safetensors")
    write_json(folder / f"{name}.json", {"made_by": f"diffusers {diffusers.__version__}", "settings": settings, **curve})


def whole(folder, name, settings, images):
    pipe = pndm()
    pipe.unet.train().requires_grad_(True)
    curve = run(pipe.unet, list(pipe.unet.parameters()), latent_loss(pipe, images, CAPTIONS, settings), settings, 4, 2)
    record(folder, name, {key: value for key, value in settings.items() if key != "ema"} | {"use_ema": "ema" in settings}, curve, pipe.unet.state_dict())


def lora(folder, images):
    pipe = pndm()
    pipe.unet.requires_grad_(False)
    pipe.unet.add_adapter(LoraConfig(r=2, lora_alpha=2, init_lora_weights="gaussian", target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
    random = generator("lora training")
    trained = [value for value in pipe.unet.parameters() if value.requires_grad]
    start = {}
    for key, value in pipe.unet.named_parameters():
        if value.requires_grad:
            with torch.no_grad():
                value.copy_(torch.empty(value.shape).normal_(generator=random) * 0.3)
    start = {key: value.clone() for key, value in get_peft_model_state_dict(pipe.unet).items()}
    curve = run(pipe.unet, trained, latent_loss(pipe, images, CAPTIONS, {}), {}, 4, 2)
    save_file(start, folder / "lora-start.safetensors")
    record(folder, "lora", {"rank": 2}, curve, get_peft_model_state_dict(pipe.unet))


def dreambooth(folder, images):
    pipe = pndm()
    pipe.unet.train().requires_grad_(True)
    settings = {"prior_loss_weight": 0.7, "snr_gamma": 3.0}
    texts = ["a photo of sks dog"] * 2 + ["a dog"] * 2
    pick = lambda rows: ([i % 2 for i in rows] + [2 + i % 2 for i in rows], len(rows))
    curve = run(pipe.unet, list(pipe.unet.parameters()), latent_loss(pipe, images, texts, settings, pick), settings, 2, 1)
    record(folder, "dreambooth", settings, curve, pipe.unet.state_dict())


def unconditional(folder, name, images, prediction_type, ema):
    network = filled(diffusers.UNet2DModel(**PLAIN), "ddpm unet").train().requires_grad_(True)
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=50, beta_schedule="squaredcos_cap_v2", prediction_type=prediction_type)
    size, channels = network.config.sample_size, network.config.in_channels

    def loss_of(chosen, update):
        randoms = [of_row(update, i) for i in range(len(chosen))]
        clean = torch.stack([images[i] for i in chosen])
        assert clean.shape[1:] == (channels, size, size), clean.shape
        noise, _, timesteps = drawn(clean.shape[1:], randoms, 50, {})
        said = network(scheduler.add_noise(clean, noise, timesteps), timesteps).sample
        if prediction_type == "epsilon":
            return F.mse_loss(said, noise)
        alpha = scheduler.alphas_cumprod[timesteps].reshape(-1, 1, 1, 1)
        return (alpha / (1 - alpha) * F.mse_loss(said, clean, reduction="none")).mean()

    settings = {"ema": dict(decay=0.99, use_ema_warmup=True, inv_gamma=1.0, power=0.75)} if ema else {}
    curve = run(network, list(network.parameters()), loss_of, settings, 4, 2)
    record(folder, name, {"prediction_type": prediction_type, "use_ema": ema}, curve, network.state_dict())


def make(out):
    folder = out / "diffusion" / "training"
    shutil.rmtree(folder, ignore_errors=True)
    images, small = pictures(folder / "pictures")
    whole(folder, "plain", {}, images)
    whole(folder, "velocity", {"prediction_type": "v_prediction", "snr_gamma": 5.0, "noise_offset": 0.1, "ema": {}}, images)
    whole(folder, "disturbed", {"input_perturbation": 0.1, "snr_gamma": 2.0}, images)
    lora(folder, images)
    dreambooth(folder, images)
    unconditional(folder, "unconditional", small, "epsilon", True)
    unconditional(folder, "unconditional-sample", small, "sample", False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    make(GOLDEN)
