# SPDX-License-Identifier: Apache-2.0
"""Networks of diffusers: the cases unet-2d-condition, unet-2d and autoencoder-kl, and tests/golden/diffusion."""

import shutil
import sys

import diffusers
import torch
from safetensors.torch import save_file

from common import GOLDEN, generator, seed_of, write_json
from models import rounded_up, tolerance_of

UNET = dict(
    sample_size=8,
    in_channels=4,
    out_channels=4,
    block_out_channels=(4, 8),
    layers_per_block=1,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    norm_num_groups=2,
    attention_head_dim=2,
    cross_attention_dim=8,
)
# Every option of the configuration that changes the mathematics of a text's U-Net.
OTHER_UNETS = {
    "xl": dict(
        UNET,
        attention_head_dim=(1, 4),
        use_linear_projection=True,
        transformer_layers_per_block=(1, 2),
        addition_embed_type="text_time",
        addition_time_embed_dim=4,
        projection_class_embeddings_input_dim=6 + 6 * 4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    ),
    "options": dict(
        UNET,
        act_fn="mish",
        norm_eps=1e-3,
        flip_sin_to_cos=False,
        freq_shift=1,
        center_input_sample=True,
        downsample_padding=0,
        mid_block_scale_factor=1.5,
        resnet_time_scale_shift="scale_shift",
        only_cross_attention=(True, False),
        conv_in_kernel=1,
        conv_out_kernel=5,
        time_embedding_dim=12,
        time_embedding_act_fn="silu",
        timestep_post_act="gelu",
        time_cond_proj_dim=5,
        num_class_embeds=3,
        class_embeddings_concat=True,
        encoder_hid_dim=6,
        layers_per_block=(2, 1),
    ),
    "few": dict(
        UNET,
        mid_block_type="UNetMidBlock2D",
        class_embed_type="projection",
        projection_class_embeddings_input_dim=5,
        down_block_types=("AttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "AttnUpBlock2D"),
    ),
    "none": dict(UNET, mid_block_type=None, class_embed_type="simple_projection", projection_class_embeddings_input_dim=5),
}
PLAIN = dict(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    block_out_channels=(4, 8),
    layers_per_block=1,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=2,
    attention_head_dim=4,
)
OTHER_PLAIN = {
    "options": dict(
        PLAIN,
        resnet_time_scale_shift="scale_shift",
        downsample_type="resnet",
        upsample_type="resnet",
        down_block_types=("AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D"),
        attention_head_dim=None,
        time_embedding_type="learned",
        num_train_timesteps=1000,
        num_class_embeds=4,
        mid_block_scale_factor=1.4,
    ),
    "bare": dict(PLAIN, add_attention=False, center_input_sample=True, act_fn="gelu", class_embed_type="timestep", norm_eps=1e-4),
}
AUTOENCODER = dict(
    sample_size=16,
    block_out_channels=(4, 8),
    layers_per_block=1,
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    latent_channels=4,
    norm_num_groups=2,
)
OTHER_AUTOENCODER = dict(AUTOENCODER, use_quant_conv=False, use_post_quant_conv=False, mid_block_add_attention=False, act_fn="relu", layers_per_block=2)

CONTROL = dict({key: UNET[key] for key in UNET if key not in ("sample_size", "out_channels", "up_block_types")}, conditioning_embedding_out_channels=(4, 6))
# `scale`: what the residuals are multiplied by; with `guesses` by less the nearer to the top they are.
OTHER_CONTROL = {
    "options": dict(
        CONTROL,
        layers_per_block=2,
        conditioning_channels=2,
        controlnet_conditioning_channel_order="bgr",
        global_pool_conditions=True,
        num_class_embeds=3,
        attention_head_dim=(1, 2),
        num_attention_heads=(2, 4),
        mid_block_type="UNetMidBlock2D",
        conditioning_embedding_out_channels=(3,),
    ),
    "xl": dict(
        CONTROL,
        addition_embed_type="text_time",
        addition_time_embed_dim=4,
        projection_class_embeddings_input_dim=6 + 6 * 4,
        use_linear_projection=True,
        transformer_layers_per_block=(1, 2),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
    ),
}
FLUX = dict(
    in_channels=8,
    num_layers=1,
    num_single_layers=1,
    attention_head_dim=8,
    num_attention_heads=2,
    joint_attention_dim=8,
    pooled_projection_dim=6,
    axes_dims_rope=(2, 4, 2),
    guidance_embeds=True,
)
OTHER_FLUX = {"schnell": dict(FLUX, guidance_embeds=False, num_layers=2, num_single_layers=0, out_channels=4, patch_size=2)}
SD3 = dict(
    sample_size=8,
    patch_size=2,
    in_channels=4,
    out_channels=4,
    num_layers=2,
    attention_head_dim=4,
    num_attention_heads=2,
    joint_attention_dim=10,
    caption_projection_dim=8,
    pooled_projection_dim=6,
    pos_embed_max_size=6,
)
OTHER_SD3 = {"sd3.5": dict(SD3, qk_norm="rms_norm", dual_attention_layers=(0, 1), out_channels=None, in_channels=2)}


def filled(model, name):
    """Seeded weights of a size at which every part matters."""
    random = generator(name)
    with torch.no_grad():
        for key, parameter in sorted(model.named_parameters()):
            values = torch.empty(parameter.shape).normal_(generator=random)
            if parameter.dim() == 1:
                parameter.copy_(0.1 * values + (1.0 if "norm" in key and key.endswith("weight") else 0.0))
            else:
                parameter.copy_(values / parameter[0].numel() ** 0.5)
    return model.eval()


def text_inputs(name, config, size=None):
    random = generator(name + " inputs")
    normal = lambda *shape: torch.empty(shape).normal_(generator=random)
    height, width = size or (config["sample_size"],) * 2
    inputs = dict(sample=normal(2, config["in_channels"], height, width), timestep=torch.tensor([7.0, 501.0]))
    if "conditioning_embedding_out_channels" in config:
        times = 2 ** (len(config["conditioning_embedding_out_channels"]) - 1)
        inputs["controlnet_cond"] = normal(2, config.get("conditioning_channels", 3), height * times, width * times)
    if "cross_attention_dim" in config:
        inputs["encoder_hidden_states"] = normal(2, 5, config.get("encoder_hid_dim") or config["cross_attention_dim"])
    if config.get("addition_embed_type"):
        inputs.update(text_embeds=normal(2, 6), time_ids=torch.tensor([[64.0, 64, 0, 0, 64, 64], [32, 48, 1, 2, 64, 32]]))
    if config.get("time_cond_proj_dim"):
        inputs["timestep_cond"] = normal(2, config["time_cond_proj_dim"])
    if config.get("num_class_embeds"):
        inputs["class_labels"] = torch.tensor([2, 0])
    elif config.get("class_embed_type") == "timestep":
        inputs["class_labels"] = torch.tensor([3, 40])
    elif "projection" in (config.get("class_embed_type") or ""):
        inputs["class_labels"] = normal(2, config["projection_class_embeddings_input_dim"])
    if config.get("time_embedding_type") == "learned":
        inputs["timestep"] = torch.tensor([7, 501])
    return inputs


def outputs_of(model, inputs):
    if isinstance(model, diffusers.AutoencoderKL):
        moments = model.encode(inputs["sample"]).latent_dist
        return {"sample": model.decode(moments.mean).sample, "latent_mean": moments.mean, "latent_log_variance": moments.logvar}
    given = dict(inputs)
    residuals = [given.pop(key) for key in sorted(given) if key.startswith("down_block_additional_residuals")]
    if residuals:
        given["down_block_additional_residuals"] = residuals
    if "conditioning_scale" in given:  # several of them are what guessing makes of one
        scale = given.pop("conditioning_scale")
        given.update(conditioning_scale=scale[-1].item(), guess_mode=len(scale) > 1)
    added = {key: given.pop(key) for key in ("text_embeds", "time_ids") if key in given}
    found = model(**given, **({"added_cond_kwargs": added} if added else {}))
    if isinstance(model, diffusers.ControlNetModel):
        maps = {f"down_block_res_samples.{i}": each for i, each in enumerate(found.down_block_res_samples)}
        return {**maps, "mid_block_res_sample": found.mid_block_res_sample}
    return {"sample": found.sample}


def as_type(inputs, dtype):
    return {key: value.to(dtype) if value.is_floating_point() and key != "time_ids" else value for key, value in inputs.items()}


def case(name, model, inputs, folder, special, with_gradients=True):
    filled(model, name)
    expected = {key: value.detach().contiguous() for key, value in outputs_of(model, inputs).items()}
    try:
        double = {key: value.detach() for key, value in outputs_of(model.double(), as_type(inputs, torch.float64)).items()}
    except RuntimeError:  # classes as times are float32 there
        double = expected
    model.float()
    tolerance = {key: tolerance_of(value, double[key]) for key, value in expected.items()}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model.save_pretrained(folder / "model")
    about = {"name": name, "class": type(model).__name__, "special": special, "seed": seed_of(name), "forward_kwargs": {}, "stored_as": "safetensors"}
    about["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    if with_gradients:
        about["objective"] = objective = "mid_block_res_sample" if isinstance(model, diffusers.ControlNetModel) else "sample"
        grads = {}
        for dtype in (torch.float32, torch.float64):
            model.to(dtype).zero_grad()
            outputs_of(model, as_type(inputs, dtype))[objective].mean().backward()
            grads[dtype] = {key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None}
        model.float()
        largest = max(float(value.abs().max()) for value in grads[torch.float32].values())
        distance = max(float((value.double() - grads[torch.float64][key]).abs().max()) for key, value in grads[torch.float32].items())
        tolerance["grads"] = dict(atol=rounded_up(max(10 * distance, 5e-6 * largest, 1e-7)), rtol=1e-3)
        save_file(grads[torch.float32], folder / "grads.safetensors")
    about["tolerance"] = tolerance
    write_json(folder / "case.json", about)
    save_file({key: value.contiguous() for key, value in inputs.items()}, folder / "inputs.safetensors")
    save_file(expected, folder / "expected.safetensors")


def networks(out):
    for name, config, kind in (("unet-2d-condition", UNET, diffusers.UNet2DConditionModel), ("unet-2d", PLAIN, diffusers.UNet2DModel)):
        case(name, kind(**config), text_inputs(name, config), out / name, "a network of diffusers; gradients of the mean of its output")
    inputs = {"sample": torch.empty(1, 3, 16, 16).normal_(generator=generator("autoencoder-kl inputs"))}
    case("autoencoder-kl", diffusers.AutoencoderKL(**AUTOENCODER), inputs, out / "autoencoder-kl", "pictures to maps and back")
    folder = out / "diffusion" / "networks"
    for key, config in OTHER_UNETS.items():
        name = f"unet-2d-condition-{key}"
        size = (6, 10) if key == "few" else (7, 9) if key == "none" else None
        case(name, diffusers.UNet2DConditionModel(**config), text_inputs(name, config, size), folder / name, "other options", False)
    for key, config in OTHER_PLAIN.items():
        name = f"unet-2d-{key}"
        case(name, diffusers.UNet2DModel(**config), text_inputs(name, config), folder / name, "other options", False)
    inputs = {"sample": torch.empty(1, 3, 12, 20).normal_(generator=generator("autoencoder inputs"))}
    case("autoencoder-kl-bare", diffusers.AutoencoderKL(**OTHER_AUTOENCODER), inputs, folder / "autoencoder-kl-bare", "other options", False)


def controlnet(out):
    inputs = text_inputs("controlnet", dict(CONTROL, sample_size=8))
    case("controlnet", diffusers.ControlNetModel(**CONTROL), inputs, out / "controlnet", "a copy of a U-Net's half that sees a picture")
    folder = out / "diffusion" / "networks"
    for key, config in OTHER_CONTROL.items():
        name = f"controlnet-{key}"
        inputs = text_inputs(name, dict(config, sample_size=6))
        inputs["conditioning_scale"] = torch.tensor([0.7]) if key == "options" else 0.7 * torch.logspace(-1, 0, 5)
        case(name, diffusers.ControlNetModel(**config), inputs, folder / name, "other options", False)
    inputs = text_inputs("unet-2d-condition-controlled", UNET)
    random = generator("residuals")
    for i, shape in enumerate(((2, 4, 8, 8), (2, 4, 8, 8), (2, 4, 1, 1), (2, 8, 4, 4))):
        inputs[f"down_block_additional_residuals.{i}"] = torch.empty(shape).normal_(generator=random)
    inputs["mid_block_additional_residual"] = torch.empty(2, 8, 4, 4).normal_(generator=random)
    name = "unet-2d-condition-controlled"
    case(name, diffusers.UNet2DConditionModel(**UNET), inputs, folder / name, "told by a ControlNet", False)


def patch_inputs(name, config):
    random = generator(name + " inputs")
    normal = lambda *shape: torch.empty(shape).normal_(generator=random)
    inputs = dict(encoder_hidden_states=normal(2, 5, config["joint_attention_dim"]), pooled_projections=normal(2, config["pooled_projection_dim"]))
    if "axes_dims_rope" not in config:
        return dict(inputs, hidden_states=normal(2, config["in_channels"], 8, 6), timestep=torch.tensor([7.0, 501.0]))
    places = torch.tensor([[0.0, y, x] for y in range(3) for x in range(4)])
    inputs.update(hidden_states=normal(2, 12, config["in_channels"]), img_ids=places, txt_ids=torch.zeros(5, 3), timestep=torch.tensor([0.007, 0.501]))
    return dict(inputs, guidance=torch.tensor([3.5, 1.5])) if config["guidance_embeds"] else inputs


def transformers_of_patches(out):
    folder = out / "diffusion" / "networks"
    for name, config, others, kind in (("flux", FLUX, OTHER_FLUX, diffusers.FluxTransformer2DModel), ("sd3", SD3, OTHER_SD3, diffusers.SD3Transformer2DModel)):
        case(name, kind(**config), patch_inputs(name, config), out / name, "a transformer over patches and a text")
        for key, other in others.items():
            case(f"{name}-{key}", kind(**other), patch_inputs(key, other), folder / f"{name}-{key}", "other options", False)


def make(out):
    import schedulers

    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    schedulers.make(out)
    networks(out)
    controlnet(out)
    transformers_of_patches(out)


if __name__ == "__main__":
    make(GOLDEN) if len(sys.argv) == 1 else globals()[sys.argv[1]](GOLDEN)
