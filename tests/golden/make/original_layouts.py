# SPDX-License-Identifier: Apache-2.0
"""Single files of the original layouts, and what diffusers' from_single_file makes of them: tests/golden/diffusion/original-*.

A case holds the names and shapes of a file's tensors, whose numbers are counted on from tensor to tensor (in the order of
their names), and of each tensor that diffusers makes of them its shape, its first number and a sum of its numbers, each
times its place."""

import inspect
import json
import re
import sys

import diffusers
import gguf
import torch
import transformers
from diffusers.loaders import single_file_utils as converters
from safetensors.torch import save_file

from common import GOLDEN, generator
from diffusion import AUTOENCODER, CONTROL, FLUX, OTHER_UNETS, SD3, UNET, patch_inputs

RESNET = {"norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0", "conv2": "out_layers.3", "conv_shortcut": "skip_connection"}
VAE_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}


def unet_name(name, config, attends):
    """The name in CompVis' files of a weight of a U-Net or a ControlNet. `attends`: blocks on the way up with attention."""
    layers = config["layers_per_block"]
    around = {"time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2", "conv_in": "input_blocks.0.0", "conv_norm_out": "out.0", "conv_out": "out.2"}
    around |= {"add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2", "controlnet_mid_block": "middle_block_out.0"}
    module, end = name.rsplit(".", 1)
    if module in around:
        return f"{around[module]}.{end}"
    if match := re.fullmatch(r"controlnet_cond_embedding\.(conv_in|conv_out|blocks\.(\d+))", module):
        last = 4 * (len(config["conditioning_embedding_out_channels"]) - 1) + 2
        return f"input_hint_block.{0 if match[1] == 'conv_in' else last if match[1] == 'conv_out' else 2 * int(match[2]) + 2}.{end}"
    if match := re.fullmatch(r"controlnet_down_blocks\.(\d+)", module):
        return f"zero_convs.{match[1]}.0.{end}"
    if match := re.fullmatch(r"mid_block\.(resnets|attentions)\.(\d+)\.(.+)", module):
        resnet = match[1] == "resnets"
        return f"middle_block.{2 * int(match[2]) if resnet else 1}.{RESNET[match[3]] if resnet else match[3]}.{end}"
    side, block, kind, layer, rest = re.fullmatch(r"(down|up)_blocks\.(\d+)\.(resnets|attentions|downsamplers|upsamplers)\.(\d+)\.(.+)", module).groups()
    block, layer = int(block), int(layer)
    place = block * (layers + 1) + layer + (side == "down")
    where = "input_blocks" if side == "down" else "output_blocks"
    if kind == "downsamplers":
        return f"{where}.{place + layers}.0.op.{end}"
    if kind == "upsamplers":
        return f"{where}.{place + layers}.{2 if attends[block] else 1}.conv.{end}"
    return f"{where}.{place}.{0 if kind == 'resnets' else 1}.{RESNET[rest] if kind == 'resnets' else rest}.{end}"


def original_unet(model, beginning):
    config = dict(model.config)
    attends = ["CrossAttn" in kind for kind in config.get("up_block_types", ())]
    return {beginning + unet_name(name, config, attends): list(value.shape) for name, value in model.state_dict().items()}


def original_vae(model, beginning):
    blocks, made = len(model.config["block_out_channels"]), {}
    for name, value in model.state_dict().items():
        shape, half = list(value.shape), name.split(".")[0]
        name = re.sub(r"up_blocks\.(\d+)", lambda m: f"up.{blocks - 1 - int(m[1])}", name)
        name = re.sub(r"down_blocks\.(\d+)", r"down.\1", name).replace("mid_block.attentions.0", "mid.attn_1").replace("conv_norm_out", "norm_out")
        name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name).replace(".resnets.", ".block.").replace("conv_shortcut", "nin_shortcut")
        name = name.replace("downsamplers.0", "downsample").replace("upsamplers.0", "upsample")
        if ".attn_1." in name:
            shape = shape + [1, 1] if len(shape) == 2 else shape
            for new, old in VAE_ATTENTION.items():
                name = name.replace(f"attn_1.{new}.", f"attn_1.{old}.")
        made[beginning + name] = shape
    return made


def joined(shape, count):
    return [shape[0] * count, *shape[1:]]


def original_sd3(model, beginning):
    made = {}
    around = {"pos_embed.pos_embed": "pos_embed", "pos_embed.proj": "x_embedder.proj", "norm_out.linear": "final_layer.adaLN_modulation.1", "proj_out": "final_layer.linear"}
    around |= {f"time_text_embed.{ours}_embedder.linear_{i + 1}": f"{theirs}_embedder.mlp.{2 * i}" for ours, theirs in (("timestep", "t"), ("text", "y")) for i in range(2)}
    inner = {"norm1.linear": "x_block.adaLN_modulation.1", "norm1_context.linear": "context_block.adaLN_modulation.1", "attn.to_add_out": "context_block.attn.proj"}
    for kind, feed in (("x_block", "ff"), ("context_block", "ff_context")):
        inner |= {f"{feed}.net.0.proj": f"{kind}.mlp.fc1", f"{feed}.net.2": f"{kind}.mlp.fc2"}
    for attention in ("attn", "attn2"):
        inner |= {f"{attention}.to_q": f"x_block.{attention}.qkv", f"{attention}.to_out.0": f"x_block.{attention}.proj"}
        inner |= {f"{attention}.norm_{x}": f"x_block.{attention}.ln_{x}" for x in "qk"}
    inner |= {"attn.add_q_proj": "context_block.attn.qkv"} | {f"attn.norm_added_{x}": f"context_block.attn.ln_{x}" for x in "qk"}
    for name, value in model.state_dict().items():
        module, end = name.rsplit(".", 1)
        if match := re.fullmatch(r"transformer_blocks\.(\d+)\.(.+)", module):
            if match[2] in inner:
                made[f"{beginning}joint_blocks.{match[1]}.{inner[match[2]]}.{end}"] = joined(value.shape, 3 if inner[match[2]].endswith("qkv") else 1)
            continue
        made[beginning + (around.get(name) or f"{around.get(module, module)}.{end}")] = list(value.shape)
    return made


def original_flux(model, beginning):
    made = {}
    around = {"context_embedder": "txt_in", "x_embedder": "img_in", "norm_out.linear": "final_layer.adaLN_modulation.1", "proj_out": "final_layer.linear"}
    for ours, theirs in (("timestep", "time"), ("text", "vector"), ("guidance", "guidance")):
        around |= {f"time_text_embed.{ours}_embedder.linear_1": f"{theirs}_in.in_layer", f"time_text_embed.{ours}_embedder.linear_2": f"{theirs}_in.out_layer"}
    double = {"attn.to_q": "img_attn.qkv", "attn.add_q_proj": "txt_attn.qkv", "attn.to_out.0": "img_attn.proj", "attn.to_add_out": "txt_attn.proj"}
    double |= {"norm1.linear": "img_mod.lin", "norm1_context.linear": "txt_mod.lin", "ff.net.0.proj": "img_mlp.0", "ff.net.2": "img_mlp.2", "ff_context.net.0.proj": "txt_mlp.0", "ff_context.net.2": "txt_mlp.2"}
    norms = {"attn.norm_q": "img_attn.norm.query_norm.scale", "attn.norm_k": "img_attn.norm.key_norm.scale", "attn.norm_added_q": "txt_attn.norm.query_norm.scale", "attn.norm_added_k": "txt_attn.norm.key_norm.scale"}
    single = {"attn.to_q": "linear1", "proj_out": "linear2", "norm.linear": "modulation.lin"}
    single_norms = {"attn.norm_q": "norm.query_norm.scale", "attn.norm_k": "norm.key_norm.scale"}
    for name, value in model.state_dict().items():
        module, end = name.rsplit(".", 1)
        if match := re.fullmatch(r"(single_)?transformer_blocks\.(\d+)\.(.+)", module):
            table, scales, block = (single, single_norms, "single_blocks") if match[1] else (double, norms, "double_blocks")
            if match[3] in scales:
                made[f"{beginning}{block}.{match[2]}.{scales[match[3]]}"] = list(value.shape)
            elif match[3] in table:
                times = 7 if table[match[3]] == "linear1" else 3 if table[match[3]].endswith("qkv") else 1
                made[f"{beginning}{block}.{match[2]}.{table[match[3]]}.{end}"] = joined(value.shape, times)
            continue
        made[f"{beginning}{around[module]}.{end}"] = list(value.shape)
    return made


def original_open_clip(model, beginning, more_layers):
    width, made = model.config.hidden_size, {}
    inner = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj", "self_attn.out_proj": "attn.out_proj"}
    for name, value in model.state_dict().items():
        if match := re.search(r"layers\.(\d+)\.(.+)\.(weight|bias)$", name):
            for layer in {int(match[1]), int(match[1]) + (more_layers if int(match[1]) == model.config.num_hidden_layers - 1 else 0)}:
                at = f"{beginning}transformer.resblocks.{layer}."
                if match[2] in inner:
                    made[f"{at}{inner[match[2]]}.{match[3]}"] = list(value.shape)
                elif match[2] == "self_attn.q_proj":
                    made[f"{at}attn.in_proj_{match[3]}"] = joined(value.shape, 3)
    places, words = model.config.max_position_embeddings, model.config.vocab_size
    made |= {beginning + "positional_embedding": [places, width], beginning + "token_embedding.weight": [words, width], beginning + "text_projection": [width, width]}
    return made | {beginning + "ln_final.weight": [width], beginning + "ln_final.bias": [width], beginning + "logit_scale": []}


def counted(shapes):
    """The tensors of a file."""
    made, first = {}, 0
    for name in sorted(shapes):
        count = int(torch.Size(shapes[name]).numel())
        made[name] = torch.arange(first, first + count, dtype=torch.float32).reshape(shapes[name])
        first += count
    assert first < 1 << 24
    return made


def summary(tensor):
    flat = tensor.detach().flatten().to(torch.int64)
    return [list(tensor.shape), int(flat[0]), int((flat * torch.arange(1, len(flat) + 1)).sum())]


def write_case(folder, name, model, shapes, convert):
    made = convert(counted(shapes))
    model.load_state_dict(made, strict=True)
    config = dict(model.config.to_dict() if isinstance(model, transformers.PreTrainedModel) else {"_class_name": type(model).__name__} | dict(model.config))
    config = {key: value for key, value in config.items() if value is not None or key == "out_channels"}
    if "architectures" in config or isinstance(model, transformers.PreTrainedModel):
        config["architectures"] = [type(model).__name__]
    case = {"made_by": f"diffusers {diffusers.__version__}", "config": config, "file": shapes, "expected": {key: summary(value) for key, value in made.items()}}
    path = folder / f"original-{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(case, separators=(",", ":")) + "\n")


def flux_converter(width):
    """diffusers knows FLUX's own width alone."""
    source = inspect.getsource(converters.convert_flux_transformer_checkpoint_to_diffusers).replace("inner_dim = 3072", f"inner_dim = {width}")
    scope = dict(vars(converters))
    exec(source, scope)
    return scope["convert_flux_transformer_checkpoint_to_diffusers"]


def text_model(kind, width, layers):
    return kind(transformers.CLIPTextConfig(vocab_size=9, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=2, max_position_embeddings=5, projection_dim=width))


def open_clip_case(folder, name, kind, width, beginning, more_layers):
    model = text_model(kind, width, 2)

    def convert(file):
        made = converters.convert_open_clip_checkpoint(model, file, prefix=beginning)
        kept = model.state_dict()
        if not any(key.startswith("text_model.") for key in kept):
            made = {key.removeprefix("text_model."): value for key, value in made.items()}
        # from_single_file drops what the model has no place for.
        return {key: value for key, value in made.items() if key in kept}

    write_case(folder, name, model, original_open_clip(model, beginning, more_layers), convert)


def gguf_case(folder, name, model, shapes, convert, inputs):
    """A file as ComfyUI-GGUF makes it: matrices in blocks, all else plain, and the output of what diffusers reads from it."""
    folder = folder / f"original-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    random = generator(name)
    writer = gguf.GGUFWriter(folder / "network.gguf", name.split("-")[0])
    kinds = gguf.GGMLQuantizationType
    for at, key in enumerate(sorted(shapes)):
        values = torch.empty(shapes[key]).normal_(generator=random).numpy() / max(1, shapes[key][-1]) ** 0.5
        kind = kinds.F32
        if len(shapes[key]) == 2 and shapes[key][1] % 32 == 0:
            kind = (kinds.Q4_0, kinds.Q8_0, kinds.Q5_1)[at % 3]
        data = values if kind == kinds.F32 else gguf.quants.quantize(values, kind)
        if key.endswith("x_embedder.proj.weight"):  # a shape that a loader puts back
            writer.add_array(f"comfy.gguf.orig_shape.{key}", [int(extent) for extent in shapes[key]])
            data = values.reshape(shapes[key][0], -1)
        writer.add_tensor(key, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = gguf.GGUFReader(folder / "network.gguf")
    plain = {each.name: torch.from_numpy(gguf.quants.dequantize(each.data, each.tensor_type)).reshape(shapes[each.name]) for each in read.tensors}
    model.load_state_dict(convert(plain), strict=True)
    save_file({key: value.contiguous() for key, value in inputs.items()}, folder / "inputs.safetensors")
    with torch.no_grad():
        save_file({"sample": model.eval()(**inputs).sample}, folder / "expected.safetensors")
    config = {"_class_name": type(model).__name__} | {key: value for key, value in model.config.items() if not key.startswith("_")}
    (folder / "config.json").write_text(json.dumps(config) + "\n")


def make_gguf(folder):
    wide = dict(FLUX, attention_head_dim=16, axes_dims_rope=(4, 6, 6), joint_attention_dim=32)
    model = diffusers.FluxTransformer2DModel(**wide)
    gguf_case(folder, "flux-gguf", model, original_flux(model, ""), flux_converter(32), patch_inputs("flux-gguf", wide))
    wide = dict(SD3, attention_head_dim=16, joint_attention_dim=32, caption_projection_dim=32, num_layers=1)
    model = diffusers.SD3Transformer2DModel(**wide)
    gguf_case(folder, "sd3-gguf", model, original_sd3(model, ""), converters.convert_sd3_transformer_checkpoint_to_diffusers, patch_inputs("sd3-gguf", wide))


def make(out):
    folder = out / "diffusion"
    folder.mkdir(parents=True, exist_ok=True)
    deep = dict(OTHER_UNETS["xl"], layers_per_block=2, transformer_layers_per_block=1)
    for name, config in (("unets/unet", UNET), ("unets/unet-xl", deep)):
        model = diffusers.UNet2DConditionModel(**config)
        write_case(folder, name, model, original_unet(model, "model.diffusion_model."), lambda file, model=model: converters.convert_ldm_unet_checkpoint(file, dict(model.config)))
    hint = dict(conditioning_embedding_out_channels=(2, 3, 2, 4))  # diffusers knows the places of four alone
    for name, config, beginning in (("controlnets/controlnet", dict(CONTROL, **hint), "control_model."), ("controlnets/controlnet-alone", dict(CONTROL, layers_per_block=2, use_linear_projection=True, **hint), "")):
        model = diffusers.ControlNetModel(**config)
        write_case(folder, name, model, original_unet(model, beginning), lambda file, model=model: converters.convert_controlnet_checkpoint(file, dict(model.config)))
    types = dict(down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3, block_out_channels=(4, 4, 8), layers_per_block=2)
    for name, config, beginning in (("autoencoders/vae", AUTOENCODER, "first_stage_model."), ("autoencoders/vae-alone", dict(AUTOENCODER, **types, use_quant_conv=False, use_post_quant_conv=False), "")):
        model = diffusers.AutoencoderKL(**config)
        write_case(folder, name, model, original_vae(model, beginning), lambda file, model=model: converters.convert_ldm_vae_checkpoint(file, dict(model.config)))
    for name, config, beginning in (("transformers/sd3", SD3, "model.diffusion_model."), ("transformers/sd3-alone", dict(SD3, num_layers=3, qk_norm="rms_norm", dual_attention_layers=(0, 1)), "")):
        model = diffusers.SD3Transformer2DModel(**config)
        write_case(folder, name, model, original_sd3(model, beginning), converters.convert_sd3_transformer_checkpoint_to_diffusers)
    for name, config, beginning in (("transformers/flux", FLUX, "model.diffusion_model."), ("transformers/flux-alone", dict(FLUX, num_layers=1, num_single_layers=3, guidance_embeds=not FLUX.get("guidance_embeds", False)), "")):
        model = diffusers.FluxTransformer2DModel(**config)
        write_case(folder, name, model, original_flux(model, beginning), flux_converter(model.config.num_attention_heads * model.config.attention_head_dim))
    open_clip_case(folder, "texts/open-clip", transformers.CLIPTextModel, 6, "cond_stage_model.model.", 1)
    open_clip_case(folder, "texts/open-clip-xl", transformers.CLIPTextModelWithProjection, 8, "conditioner.embedders.1.model.", 0)
    make_gguf(folder)


if __name__ == "__main__":
    sys.exit(make(GOLDEN))
