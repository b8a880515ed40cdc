# SPDX-License-Identifier: Apache-2.0
"""Pipelines of diffusers with random weights: latents and pictures of whole runs, in tests/golden/diffusion."""

import json
import shutil
import sys

import diffusers
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from common import GOLDEN, generator, write_json
from diffusion import AUTOENCODER, CONTROL, FLUX, OTHER_CONTROL, SD3, OTHER_UNETS, PLAIN, UNET, filled
from models import rounded_up

SD = dict(num_train_timesteps=1000, beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
CAT = dict(prompt="a photo of a cat", num_inference_steps=8, seed=3)  # at 64 pixels, what the U-Net is made for
SEA = dict(prompt="the sea", num_inference_steps=3, seed=11, height=48, width=32)
HOUSE = dict(prompt="a red house", num_inference_steps=4, seed=5, height=32, width=32)
STARTED = dict(prompt="a red house", num_inference_steps=6, seed=8, start=True)
MASKED = dict(STARTED, mask=True, height=32, width=40)


def tokenizer():
    made = transformers.AutoTokenizer.from_pretrained(GOLDEN / "tokenizers" / "clip")
    made.model_max_length = 16
    return made


def text_encoder(name, width, projection=None):
    words = tokenizer()
    config = transformers.CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
        projection_dim=projection or width,
        hidden_act="quick_gelu" if projection is None else "gelu",
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    kind = transformers.CLIPTextModel if projection is None else transformers.CLIPTextModelWithProjection
    return filled(kind(config), name)


def unet(name, config, **other):
    return filled(diffusers.UNet2DConditionModel(**dict(config, sample_size=32, **other)), name + " unet")


def stable_diffusion(name, network, scheduler):
    """The text encoder and the autoencoder are the same in all of them, so that tests put pipelines together."""
    return diffusers.StableDiffusionPipeline(
        vae=filled(diffusers.AutoencoderKL(**AUTOENCODER), "sd vae"),
        text_encoder=text_encoder("sd text", 8),
        tokenizer=tokenizer(),
        unet=network,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def pndm():
    return stable_diffusion("sd-pndm", unet("sd-pndm", UNET), diffusers.PNDMScheduler(**SD, skip_prk_steps=True, steps_offset=1))


def euler():
    network = unet("sd-euler", UNET, attention_head_dim=(1, 2), use_linear_projection=True)
    return stable_diffusion("sd-euler", network, diffusers.EulerAncestralDiscreteScheduler(**SD, prediction_type="v_prediction", timestep_spacing="trailing"))


def xl():
    return diffusers.StableDiffusionXLPipeline(
        vae=filled(diffusers.AutoencoderKL(**AUTOENCODER), "sd vae"),
        text_encoder=text_encoder("sdxl text", 8),
        text_encoder_2=text_encoder("sdxl text 2", 6, 6),
        tokenizer=tokenizer(),
        tokenizer_2=tokenizer(),
        unet=unet("sdxl", OTHER_UNETS["xl"], cross_attention_dim=8 + 6),
        scheduler=diffusers.EulerDiscreteScheduler(**SD, timestep_spacing="leading", steps_offset=1),
        add_watermarker=False,
    )


def drawn(out):
    """A picture and a mask, as files."""
    picture, mask = Image.new("RGB", (40, 32)), Image.new("L", (40, 32))
    for x in range(40):
        for y in range(32):
            picture.putpixel((x, y), (x * 6, y * 8, x * y % 256))
            mask.putpixel((x, y), 255 if 8 <= x < 24 and 6 <= y < 26 else 0)
    (out / "diffusion").mkdir(parents=True, exist_ok=True)
    picture.save(out / "diffusion" / "start.png")
    mask.save(out / "diffusion" / "mask.png")
    return picture, mask


def as_kind(pipe, given):
    """The pipeline of the same parts that begins with what is given."""
    if "start" not in given or isinstance(pipe, diffusers.StableDiffusionInstructPix2PixPipeline):
        return pipe
    kind = type(pipe)
    if hasattr(pipe, "controlnet"):
        wanted = diffusers.StableDiffusionControlNetInpaintPipeline if "mask" in given else diffusers.StableDiffusionControlNetImg2ImgPipeline
        return wanted(**pipe.components, requires_safety_checker=False)
    if issubclass(kind, diffusers.StableDiffusionXLPipeline) or "XL" in kind.__name__:
        wanted = diffusers.StableDiffusionXLInpaintPipeline if "mask" in given else diffusers.StableDiffusionXLImg2ImgPipeline
        more = dict(add_watermarker=False, requires_aesthetics_score=pipe.config.get("requires_aesthetics_score", False))
    elif kind is diffusers.LatentConsistencyModelPipeline:
        wanted, more = diffusers.LatentConsistencyModelImg2ImgPipeline, dict(requires_safety_checker=False)
    else:
        wanted = diffusers.StableDiffusionInpaintPipeline if "mask" in given else diffusers.StableDiffusionImg2ImgPipeline
        more = dict(requires_safety_checker=False)
    return wanted(**pipe.components, **more)


def sensitivity(pipe, run, latents):
    """Ten times what latents change by where each weight of the U-Net moves by about one unit of float32: orders of sums are as much."""
    network = pipe.unet if hasattr(pipe, "unet") else pipe.transformer
    kept = {key: value.clone() for key, value in network.state_dict().items()}
    random = generator("sensitivity")
    with torch.no_grad():
        for value in network.state_dict().values():
            value.mul_(1 + 1.2e-7 * (torch.rand(value.shape, generator=random) * 2 - 1).sign())
    changed = run()
    network.load_state_dict(kept)
    return rounded_up(max(10 * float((changed - latents).abs().max()), 1e-5 * float(latents.abs().max())))


def learn(pipe, path, token):
    """Words of a file, of XL for each of its two encoders."""
    state = load_file(path) if path.suffix == ".safetensors" else None
    if state is None or "clip_l" not in state:
        pipe.load_textual_inversion(str(path.parent), weight_name=path.name, token=token)
        return
    pipe.load_textual_inversion(state["clip_l"], token=token, text_encoder=pipe.text_encoder, tokenizer=pipe.tokenizer)
    pipe.load_textual_inversion(state["clip_g"], token=token, text_encoder=pipe.text_encoder_2, tokenizer=pipe.tokenizer_2)


def record(out, name, pipe, settings, kept=None):
    """Runs of a pipeline. `kept`: parts that are stored; the others lie in the folder of another case."""
    folder = out / "diffusion" / name
    for old in ("model", "expected.safetensors", "runs.json"):
        shutil.rmtree(folder / old, ignore_errors=True) if old == "model" else (folder / old).unlink(missing_ok=True)
    pipe.save_pretrained(folder / "model")
    # As a file says it, in which nothing is a default: from_config drops those of a scheduler that was made here.
    of_file = type(pipe.scheduler).from_pretrained(folder / "model" / "scheduler")
    for part in (folder / "model").iterdir():
        if kept is not None and part.is_dir() and part.name not in kept:
            shutil.rmtree(part)
    picture, mask = drawn(out)
    tensors, runs = {}, []
    for i, given in enumerate(settings):
        own = ("seed", "start", "mask", "scheduler", "lora", "lora_scale", "control", "textual_inversion", "textual_inversion_token")
        arguments = {key: value for key, value in given.items() if key not in own}
        pipe.scheduler = getattr(diffusers, given["scheduler"]).from_config(of_file.config) if "scheduler" in given else of_file
        if "lora" in given:
            for number, path in enumerate(given["lora"]):
                pipe.load_lora_weights(str(folder), weight_name=path, adapter_name=f"of_{number}")
            pipe.set_adapters([f"of_{number}" for number in range(len(given["lora"]))], given["lora_scale"])
        for number, path in enumerate(given.get("textual_inversion", ())):
            learn(pipe, folder / path, given["textual_inversion_token"][number] if "textual_inversion_token" in given else None)
        used = as_kind(pipe, given)
        used.set_progress_bar_config(disable=True)
        if "start" in given:
            arguments["image"] = picture
        if "mask" in given:
            arguments["mask_image"] = mask
        if "control" in given:
            arguments["control_image" if "start" in given else "image"] = mask
        if "max_sequence_length" not in given and hasattr(pipe, "transformer"):
            arguments["max_sequence_length"] = given["max_sequence_length"] = 12
        # FLUX gives rows of patches.
        plain = (lambda x: used._unpack_latents(x, given["height"], given["width"], used.vae_scale_factor)) if hasattr(used, "_unpack_latents") else (lambda x: x)
        draw = lambda kind: used(**arguments, generator=torch.Generator().manual_seed(given["seed"]), output_type=kind).images
        run = lambda kind: plain(draw(kind)) if kind == "latent" else draw(kind)
        tensors[f"latents.{i}"] = run("latent").contiguous()
        if i == 0 or given.get("num_images_per_prompt"):
            tensors[f"pictures.{i}"] = (run("pt").permute(0, 2, 3, 1) * 255).round().to(torch.uint8).contiguous()
        runs.append(dict(given, atol=sensitivity(pipe, lambda: run("latent"), tensors[f"latents.{i}"])))
        if "lora" in given:
            pipe.unload_lora_weights()
        if "textual_inversion" in given:
            pipe.unload_textual_inversion()
            if hasattr(pipe, "text_encoder_2"):
                pipe.unload_textual_inversion(text_encoder=pipe.text_encoder_2, tokenizer=pipe.tokenizer_2)
    save_file(tensors, folder / "expected.safetensors")
    write_json(folder / "runs.json", {"made_by": f"diffusers {diffusers.__version__}", "runs": runs})


def lora_of(network, name, modules, rank, kernel_rank=None):
    """Random factors of the modules that end so: {module: (down, up)}."""
    random = generator(name)
    normal = lambda *shape: torch.empty(shape).normal_(generator=random) * 0.5
    factors = {}
    for key, module in sorted(network.named_modules()):
        if not any(key.endswith(each) for each in modules) or not hasattr(module, "weight"):
            continue
        out, *rest = module.weight.shape
        factors[key] = (normal(rank, *rest), normal(out, rank, *(1 for _ in rest[1:])))
    return factors


def lora(out):
    folder = out / "diffusion" / "sd-lora"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pipe = euler()
    tensors = {}
    for part, network, modules in (("unet", pipe.unet, ("attn2.to_q", "to_out.0", "proj_in", "conv1")), ("text_encoder", pipe.text_encoder, ("q_proj", "fc1"))):
        for key, (down, up) in lora_of(network, f"lora {part}", modules, 2).items():
            tensors[f"{part}.{key}.lora_A.weight"], tensors[f"{part}.{key}.lora_B.weight"] = down, up
    said = {"unet.r": 2, "unet.lora_alpha": 6, "unet.target_modules": ["attn2.to_q", "to_out.0", "proj_in", "conv1"]}
    said.update({"text_encoder.r": 2, "text_encoder.lora_alpha": 1, "text_encoder.target_modules": ["q_proj", "fc1"]})
    save_file(tensors, folder / "peft.safetensors", {"format": "pt", "lora_adapter_metadata": json.dumps(said)})
    plain = {}
    for key, (down, up) in lora_of(pipe.unet, "lora plain", ("attn1.to_v",), 1).items():
        plain[f"unet.{key}.lora.down.weight"], plain[f"unet.{key}.lora.up.weight"] = down, up
    save_file(plain, folder / "plain.safetensors", {"format": "pt"})
    kohya = {}
    for prefix, network, modules in (("lora_unet", pipe.unet, ("attn1.to_q", "ff.net.2", "conv_shortcut")), ("lora_te", pipe.text_encoder, ("k_proj", "out_proj"))):
        for key, (down, up) in lora_of(network, f"lora {prefix}", modules, 2).items():
            name = f"{prefix}_{'text_model_' if prefix == 'lora_te' else ''}{key.replace('.', '_')}"
            kohya[name + ".lora_down.weight"], kohya[name + ".lora_up.weight"], kohya[name + ".alpha"] = down, up, torch.tensor(3.0)
    save_file(kohya, folder / "kohya.safetensors", {"format": "pt"})
    runs = [
        dict(HOUSE, lora=["peft.safetensors"], lora_scale=[1.0], guidance_scale=1.5),
        dict(HOUSE, lora=["plain.safetensors", "kohya.safetensors"], lora_scale=[0.7, -0.4], guidance_scale=1.5),
        dict(HOUSE, guidance_scale=1.5),
    ]
    record(out, "sd-lora", pipe, runs, ())


def unconditional(out):
    """Pipelines without a text: pictures alone."""
    folder = out / "diffusion" / "ddpm"
    shutil.rmtree(folder, ignore_errors=True)
    network = filled(diffusers.UNet2DModel(**PLAIN), "ddpm unet")
    pipe = diffusers.DDPMPipeline(unet=network, scheduler=diffusers.DDPMScheduler(clip_sample=True))
    pipe.save_pretrained(folder / "model")
    other = diffusers.DDIMPipeline(unet=network, scheduler=pipe.scheduler)
    tensors, runs = {}, []
    for i, given in enumerate((dict(num_inference_steps=10, seed=6), dict(num_inference_steps=5, seed=7, num_images_per_prompt=2, scheduler="DDIMScheduler", eta=0.5))):
        used = other if "scheduler" in given else pipe
        used.set_progress_bar_config(disable=True)
        more = {key: given[key] for key in ("num_inference_steps", "eta") if key in given}
        run = used(batch_size=given.get("num_images_per_prompt", 1), generator=torch.Generator().manual_seed(given["seed"]), output_type="numpy", **more)
        tensors[f"pictures.{i}"] = torch.from_numpy((run.images * 255).round()).to(torch.uint8).contiguous()
        runs.append(given)
    save_file(tensors, folder / "expected.safetensors")
    write_json(folder / "runs.json", {"made_by": f"diffusers {diffusers.__version__}", "runs": runs})


def instructed(out):
    """A U-Net that sees the picture beside the latents, and is guided by it and by a text."""
    network = unet("sd-instruct", UNET, in_channels=8)
    pipe = diffusers.StableDiffusionInstructPix2PixPipeline(**dict(pndm().components, unet=network), requires_safety_checker=False)
    started = dict(prompt="a red house", num_inference_steps=4, seed=8, start=True)
    settings = [
        dict(started, guidance_scale=3.0, negative_prompt="blurry", image_guidance_scale=1.2, num_images_per_prompt=2),
        dict(started, guidance_scale=3.0, image_guidance_scale=0.5),
    ]
    record(out, "sd-instruct", pipe, settings, ("unet",))


def controlnet(out):
    """With a network that sees a picture beside the latents: the mask's."""
    network = filled(diffusers.ControlNetModel(**CONTROL), "sd-controlnet")
    pipe = diffusers.StableDiffusionControlNetPipeline(**pndm().components, controlnet=network, requires_safety_checker=False)
    settings = [
        dict(CAT, guidance_scale=3.0, negative_prompt="blurry", control=True),
        dict(SEA, guidance_scale=2.0, control=True, guess_mode=True, controlnet_conditioning_scale=0.6, control_guidance_start=0.2, control_guidance_end=0.8),
        dict(HOUSE, guidance_scale=1.0, control=True, num_images_per_prompt=2, controlnet_conditioning_scale=-0.5),
        dict(STARTED, guidance_scale=3.0, control=True, strength=0.6),
        dict(MASKED, guidance_scale=3.0, control=True, strength=0.5, control_guidance_end=0.7),
    ]
    record(out, "sd-controlnet", pipe, settings, ("controlnet",))
    network = filled(diffusers.ControlNetModel(**dict(OTHER_CONTROL["xl"], attention_head_dim=(1, 4), cross_attention_dim=8 + 6)), "sdxl-controlnet")
    parts = {key: value for key, value in xl().components.items() if key not in ("image_encoder", "feature_extractor")}
    pipe = diffusers.StableDiffusionXLControlNetPipeline(**parts, controlnet=network, add_watermarker=False)
    settings = [dict(HOUSE, guidance_scale=3.0, control=True, guess_mode=True), dict(SEA, guidance_scale=3.0, control=True)]
    record(out, "sdxl-controlnet", pipe, settings, ("controlnet",))


def t5(name, width):
    words = transformers.AutoTokenizer.from_pretrained(GOLDEN / "tokenizers" / "t5")
    config = transformers.T5Config(vocab_size=len(words), d_model=width, d_kv=4, d_ff=12, num_layers=1, num_heads=2, feed_forward_proj="gated-gelu")
    return filled(transformers.T5EncoderModel(config), name), words


def flux():
    vae = filled(diffusers.AutoencoderKL(**dict(AUTOENCODER, latent_channels=2, shift_factor=0.1, scaling_factor=0.4)), "flux vae")
    encoder, words = t5("flux t5", 8)
    parts = dict(vae=vae, text_encoder=text_encoder("flux text", 6), tokenizer=tokenizer(), text_encoder_2=encoder, tokenizer_2=words)
    network = filled(diffusers.FluxTransformer2DModel(**FLUX), "flux transformer")
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift=3.0, base_image_seq_len=4, max_image_seq_len=64)
    return diffusers.FluxPipeline(**parts, transformer=network, scheduler=scheduler)


def third():
    encoder, words = t5("sd3 t5", 14)
    vae = filled(diffusers.AutoencoderKL(**dict(AUTOENCODER, shift_factor=0.1, scaling_factor=0.4)), "sd3 vae")
    parts = dict(vae=vae, text_encoder=text_encoder("sd3 text", 6, 6), tokenizer=tokenizer(), text_encoder_2=text_encoder("sd3 text 2", 6, 4), tokenizer_2=tokenizer())
    config = dict(SD3, joint_attention_dim=14, pooled_projection_dim=10, pos_embed_max_size=20, qk_norm="rms_norm", sample_size=32)
    network = filled(diffusers.SD3Transformer2DModel(**config), "sd3 transformer")
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    return diffusers.StableDiffusion3Pipeline(**parts, text_encoder_3=encoder, tokenizer_3=words, transformer=network, scheduler=scheduler)


def flows(out):
    """Transformers over patches: FLUX, and Stable Diffusion 3 with three texts and with two."""
    pipe = flux()
    settings = [
        dict(CAT, height=64, width=48, guidance_scale=2.5),
        dict(SEA, negative_prompt="blurry", true_cfg_scale=2.0, max_sequence_length=6, num_images_per_prompt=2),
    ]
    record(out, "flux", pipe, settings)
    parts = {key: value for key, value in pipe.components.items() if key not in ("image_encoder", "feature_extractor")}
    network = filled(diffusers.FluxTransformer2DModel(**dict(FLUX, guidance_embeds=False)), "schnell transformer")
    pipe = diffusers.FluxPipeline(**dict(parts, transformer=network, scheduler=diffusers.FlowMatchEulerDiscreteScheduler()))
    record(out, "flux-schnell", pipe, [dict(HOUSE)], ("transformer", "scheduler"))
    pipe = third()
    settings = [
        dict(CAT, guidance_scale=3.0, negative_prompt="blurry"),
        dict(SEA, guidance_scale=1.0, num_images_per_prompt=2, clip_skip=1),
    ]
    record(out, "sd3", pipe, settings)
    parts = {key: value for key, value in pipe.components.items() if key not in ("image_encoder", "feature_extractor")}
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    pipe = diffusers.StableDiffusion3Pipeline(**dict(parts, text_encoder_3=None, tokenizer_3=None, scheduler=scheduler))
    record(out, "sd3-two-texts", pipe, [dict(HOUSE, guidance_scale=2.0)], ("scheduler",))


def of_pndm(out):
    settings = [
        dict(CAT, guidance_scale=3.0, negative_prompt="blurry"),
        dict(SEA, guidance_scale=1.0),
        dict(HOUSE, guidance_scale=1.5, scheduler="DDIMScheduler", eta=0.6),
    ]
    record(out, "sd-pndm", pndm(), settings)


def make(out):
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    of_pndm(out)
    settings = [
        dict(HOUSE, guidance_scale=2.0, guidance_rescale=0.7, num_images_per_prompt=2),
        dict(CAT, guidance_scale=1.5),
        dict(STARTED, strength=0.6, guidance_scale=3.0),
        dict(MASKED, strength=1.0, guidance_scale=3.0),
        dict(MASKED, strength=0.5, guidance_scale=1.0),
    ]
    record(out, "sd-euler", euler(), settings)
    network = unet("sd-inpaint", UNET, in_channels=9)
    kind = diffusers.StableDiffusionInpaintPipeline
    pipe = kind(**dict(pndm().components, unet=network), requires_safety_checker=False)
    record(out, "sd-inpaint", pipe, [dict(MASKED, guidance_scale=3.0), dict(MASKED, strength=0.5, num_images_per_prompt=2)], ("unet",))
    instructed(out)
    network = unet("lcm", UNET, time_cond_proj_dim=6)
    parts = dict(pndm().components, unet=network, scheduler=diffusers.LCMScheduler(**SD, original_inference_steps=50))
    settings = [dict(CAT, num_inference_steps=4), dict(STARTED, num_inference_steps=4, strength=0.5, guidance_scale=3.0)]
    record(out, "lcm", diffusers.LatentConsistencyModelPipeline(**parts, requires_safety_checker=False), settings, ("unet", "scheduler"))
    pipe = xl()
    settings = [
        dict(CAT, guidance_scale=5.0, negative_prompt="blurry"),
        dict(SEA, guidance_scale=3.0),
        dict(STARTED, strength=0.5),
        dict(MASKED),
    ]
    record(out, "sdxl", pipe, settings)
    network = unet("sdxl-refiner", OTHER_UNETS["xl"], cross_attention_dim=6, projection_class_embeddings_input_dim=6 + 5 * 4)
    parts = {key: value for key, value in dict(pipe.components, unet=network, text_encoder=None, tokenizer=None).items() if key not in ("image_encoder", "feature_extractor")}
    refiner = diffusers.StableDiffusionXLImg2ImgPipeline(**parts, requires_aesthetics_score=True, add_watermarker=False)
    record(out, "sdxl-refiner", refiner, [dict(STARTED, strength=0.4)], ("unet",))
    lora(out)
    controlnet(out)
    flows(out)
    unconditional(out)


if __name__ == "__main__":
    make(GOLDEN) if len(sys.argv) == 1 else globals()[sys.argv[1]](GOLDEN)
