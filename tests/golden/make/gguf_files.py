# SPDX-License-Identifier: Apache-2.0
"""GGUF files by gguf-py."""

import json
import shutil

import gguf
import numpy
import safetensors.numpy
import torch
import transformers

from quantized_models import build, layers_of, write_expected

GGUF = {
    "gguf-llama-f16": ("llama", "F16", "rows of q and k permuted; a vocabulary of sentencepiece with bytes"),
    "gguf-qwen2-q8_0": ("qwen2", "Q8_0", "biases of q, k, v; a vocabulary of bytes"),
    "gguf-qwen3-q4_0": ("qwen3", "Q4_0", "heads wider than hidden / heads; norms of q and k; a tied head"),
    "gguf-gpt2-q5_1": ("gpt2", "Q5_1", "weights turned round; qkv in one; a tied head"),
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}


def name_in_gguf(key):
    path, leaf = key.rsplit(".", 1)
    for prefix in ("model.layers.", "transformer.h."):
        if path.startswith(prefix):
            layer, rest = path[len(prefix) :].split(".", 1)
            return f"blk.{layer}.{NAMES[rest]}.{leaf}"
    return f"{NAMES[path]}.{leaf}"


def permuted(weight, heads):
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
    )


def write_vocabulary(writer, words, body):
    tokens = [words.convert_ids_to_tokens(i) for i in range(len(words))]
    special = set(words.all_special_ids)
    kinds = [3 if i in special else 6 if token.startswith("<0x") else 1 for i, token in enumerate(tokens)]
    model = json.loads(words.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("llama" if body == "llama" else "gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    if body == "llama":
        ranks = {"".join(pair): i for i, pair in enumerate(model["merges"])}
        writer.add_token_scores(
            [0.0 if kind != 1 else -float(ranks.get(token, 100000)) for token, kind in zip(tokens, kinds)]
        )
    else:
        writer.add_tokenizer_pre("gpt-2" if body == "gpt2" else "qwen2")
        writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    for kind in ("bos", "eos", "pad"):
        token = getattr(words, f"{kind}_token_id")
        if token is not None:
            getattr(writer, f"add_{kind}_token_id")(token)
    writer.add_add_bos_token(body == "llama")


def make_gguf(out, name):
    body, kind, special = GGUF[name]
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model, words, _ = build(name, body)
    config, kind_id = model.config, gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(folder / "model.gguf", body)
    writer.add_name(name)
    writer.add_file_type({"F16": 1, "Q4_0": 2, "Q5_1": 9, "Q8_0": 7}[kind])
    writer.add_vocab_size(config.vocab_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if body == "gpt2":
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(10000.0)
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        writer.add_rope_dimension_count(width)
        writer.add_key_length(width)
        writer.add_value_length(width)
    write_vocabulary(writer, words, body)
    layers = layers_of(model)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            value = parameter.detach()
            turned = isinstance(layers.get(key.rsplit(".", 1)[0]), transformers.pytorch_utils.Conv1D) and key.endswith(
                "weight"
            )
            heads = {"q_proj": config.num_attention_heads, "k_proj": getattr(config, "num_key_value_heads", 0)}.get(
                key.split(".")[-2]
            )
            mixes = body == "llama" and heads
            value = permuted(value, heads) if mixes else value.T if turned else value
            array = value.contiguous().numpy()
            if value.dim() < 2 or "wpe" in key:
                writer.add_tensor(name_in_gguf(key), array)
                continue
            data = gguf.quants.quantize(array, kind_id)
            made = torch.from_numpy(numpy.ascontiguousarray(gguf.quants.dequantize(data, kind_id)).reshape(array.shape))
            writer.add_tensor(name_in_gguf(key), data, raw_dtype=kind_id)
            if mixes:
                made = made.reshape(heads, value.shape[0] // heads // 2, 2, -1).transpose(1, 2).reshape(value.shape)
            parameter.copy_(made.T if turned else made)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    about = {"format": f"gguf {kind}", "special": special}
    if body == "qwen2":
        texts = [
            "The licence grants you the right.",
            "  two spaces\nand a line",
            "12 345 don't",
            "na\u00efve caf\u00e9",
        ]
        about["tokenizer"] = {
            "texts": [{"text": text, "ids": words(text, add_special_tokens=False)["input_ids"]} for text in texts]
        }
    rounded_layers = list(layers.values()) + ([model.lm_head] if kind != "F16" else [])
    write_expected(folder, name, model, rounded_layers, about)


POINTS = ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0")


def make_points(out):
    """Blocks of random bytes with a scale that is finite, and what gguf-py makes of them."""
    rng, tensors = numpy.random.default_rng(7), {}
    for name in POINTS:
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        blocks = rng.integers(0, 256, (2, size), dtype=numpy.uint8)
        for i, block in enumerate(blocks):
            scale = numpy.float16(0.037 * (i + 1))
            if name == "IQ1_M":  # in the highest bits of four words
                words, bits = block[48:56].view(numpy.uint16), int(scale.view(numpy.uint16))
                for k in range(4):
                    words[k] = (words[k] & 0x0FFF) | ((bits >> (4 * k) & 15) << 12)
            else:
                at = size - 2 if name.startswith("TQ") else 0
                block[at : at + 2] = numpy.frombuffer(scale.tobytes(), numpy.uint8)
        tensors[f"{name}.bytes"] = blocks.reshape(1, -1)
        tensors[f"{name}.values"] = gguf.quants.dequantize(blocks.reshape(1, -1), kind).astype(numpy.float32)
    safetensors.numpy.save_file(tensors, out / "points.safetensors")
