# SPDX-License-Identifier: Apache-2.0
"""Compressed checkpoints: what transformers reads by quantization_config, and GGUF."""

import shutil

import torch
from safetensors.torch import save_file

import gguf_files
from common import generator
from packing import awq, ct_int4, ct_int8, fp8, gptq, mxfp4, nf4
from quantized_models import build, layers_of, write_expected
from vocabularies import make_tokenizer_files


def ct_group(bits, strategy, group, inputs=None):
    weights = dict(num_bits=bits, type="int", symmetric=True, strategy=strategy, dynamic=False)
    weights |= dict(group_size=group) if group else {}
    return {"group_0": dict(targets=["Linear"], weights=weights, input_activations=inputs, output_activations=None)}


TOKENS = dict(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True)
COMPRESSED = {  # case: body, packing, group, type of the rest, quantization_config, what is special
    "gptq-llama-int4-g32": (
        "llama",
        gptq,
        32,
        torch.float16,
        dict(quant_method="gptq", bits=4, group_size=32, desc_act=False, sym=True),
        "zero points stored less one; the rest in float16",
    ),
    "gptq-qwen2-int4-act-order": (
        "qwen2",
        gptq,
        32,
        torch.float32,
        dict(quant_method="gptq", bits=4, group_size=32, desc_act=True, sym=False, checkpoint_format="gptq_v2"),
        "g_idx is not sorted; zero points as they are; biases",
    ),
    "awq-qwen2-int4-g32": (
        "qwen2",
        awq,
        32,
        torch.float32,
        dict(quant_method="awq", bits=4, group_size=32, version="gemm", zero_point=True),
        "outputs packed in the order 0 2 4 6 1 3 5 7",
    ),
    "ct-qwen3-int4-g32": (
        "qwen3",
        ct_int4,
        32,
        torch.float32,
        dict(
            quant_method="compressed-tensors",
            format="pack-quantized",
            quantization_status="compressed",
            ignore=["lm_head"],
            config_groups=ct_group(4, "group", 32),
        ),
        "scales in bfloat16; a tied head",
    ),
    "ct-llama-w8a8": (
        "llama",
        ct_int8,
        None,
        torch.float32,
        dict(
            quant_method="compressed-tensors",
            format="int-quantized",
            quantization_status="compressed",
            ignore=["lm_head"],
            config_groups=ct_group(8, "channel", None, TOKENS),
        ),
        "inputs rounded by token: the second expected tensor",
    ),
    "fp8-qwen3-blocks": (
        "qwen3",
        fp8,
        None,
        torch.float32,
        dict(
            quant_method="fp8",
            fmt="e4m3",
            activation_scheme="dynamic",
            weight_block_size=[128, 128],
            modules_to_not_convert=["lm_head"],
        ),
        "blocks of 128 x 128, the last ones shorter",
    ),
    "nf4-llama-double": (
        "llama",
        nf4,
        None,
        torch.float32,
        dict(
            quant_method="bitsandbytes",
            load_in_4bit=True,
            load_in_8bit=False,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype="float32",
            bnb_4bit_quant_storage="uint8",
            llm_int8_skip_modules=["lm_head"],
        ),
        "maxima of blocks rounded to bytes themselves",
    ),
}


def make_compressed(out, name):
    body, pack, group, rest, config, special = COMPRESSED[name]
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model, _, tokenizer = build(name, body, **(dict(intermediate_size=160) if pack is fp8 else {}))
    random, tensors, layers = generator("order of " + name), {}, layers_of(model)
    with torch.no_grad():
        for path, layer in layers.items():
            made, weight = pack(layer.weight.detach().clone(), group, "act-order" in name, random)
            tensors |= {f"{path}.{key}": value for key, value in made.items()}
            layer.weight.copy_(weight)
        for key, parameter in model.named_parameters():
            if key.removesuffix(".weight") in layers or key == "lm_head.weight" and model.config.tie_word_embeddings:
                continue
            parameter.copy_(parameter.to(rest).float())
            tensors[key] = parameter.detach().to(rest).clone()
    make_tokenizer_files(tokenizer, folder / "model")
    save_file(
        {key: value.contiguous() for key, value in tensors.items()},
        folder / "model" / "model.safetensors",
        {"format": "pt"},
    )
    model.config.quantization_config, model.config.architectures = config, [type(model).__name__]
    model.config.save_pretrained(folder / "model")
    del model.config.quantization_config
    model.generation_config.save_pretrained(folder / "model")
    form = {"compressed-tensors": "ct", "bitsandbytes": "nf4"}.get(config["quant_method"], config["quant_method"])
    write_expected(
        folder,
        name,
        model,
        list(layers.values()),
        {"format": form, "special": special, "quantization_config": config},
        tokens=name == "ct-llama-w8a8",
    )


def make_mxfp4(out, name):
    """Experts as gpt-oss stores them; all else in bfloat16."""
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model, _, tokenizer = build(name, "gpt_oss")
    config = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"])
    tensors = {}
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith(("gate_up_proj", "down_proj")):
                tensors[f"{key}_blocks"], tensors[f"{key}_scales"], made = mxfp4(parameter.transpose(1, 2).contiguous())
                parameter.copy_(made)
                continue
            parameter.copy_(parameter.bfloat16().float())
            tensors[key] = parameter.detach().bfloat16().clone()
    make_tokenizer_files(tokenizer, folder / "model")
    save_file(
        {key: value.contiguous() for key, value in tensors.items()},
        folder / "model" / "model.safetensors",
        {"format": "pt"},
    )
    model.config.quantization_config, model.config.architectures = config, [type(model).__name__]
    model.config.save_pretrained(folder / "model")
    del model.config.quantization_config
    model.generation_config.save_pretrained(folder / "model")
    write_expected(
        folder,
        name,
        model,
        [layer.mlp.experts for layer in model.model.layers],
        {"format": "mxfp4", "special": "experts in blocks of 32 with powers of two", "quantization_config": config},
    )


def make(out):
    for name in COMPRESSED:
        make_compressed(out / "quantized", name)
    make_mxfp4(out / "quantized", "mxfp4-gpt-oss")
    for name in gguf_files.GGUF:
        gguf_files.make_gguf(out / "quantized", name)
    gguf_files.make_points(out / "quantized")
