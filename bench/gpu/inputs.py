#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the configuration of a model that all.sh measures with random weights, and inputs for it. Needs no package.

  bench/gpu/inputs.py full|dry NAME DIRECTORY
"""
import array
import json
import math
import os
import random
import struct
import sys

BERT = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0,
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.02}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6,
         "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True,
         "initializer_range": 0.02, "max_position_embeddings": 16384}


def bert(layers, hidden, heads):
    return BERT | {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
                   "intermediate_size": 4 * hidden}


def llama(layers, hidden, heads, key_heads, inner, vocabulary):
    return LLAMA | {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
                    "num_key_value_heads": key_heads, "intermediate_size": inner, "vocab_size": vocabulary,
                    "head_dim": hidden // heads}


def gpt2(layers, hidden, heads):
    return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": layers, "n_embd": hidden,
            "n_head": heads, "n_positions": 1024, "vocab_size": 50257, "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-5, "bos_token_id": 50256, "eos_token_id": 50256, "initializer_range": 0.02,
            "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}


# One layer that is nearly all product, one that is nearly all attention, and the models of the comparison.
MODELS = {
    "product": (llama(2, 8192, 64, 64, 28672, 1000), llama(1, 32, 4, 2, 64, 100)),
    "attention": (llama(1, 2048, 16, 16, 256, 1000), llama(1, 32, 4, 2, 64, 100)),
    "bert": (bert(12, 768, 12), bert(1, 32, 4)),
    "bert-large": (bert(24, 1024, 16) | {"architectures": ["BertForMaskedLM"]},
                   bert(1, 32, 4) | {"architectures": ["BertForMaskedLM"], "vocab_size": 100}),
    "gpt2-medium": (gpt2(24, 1024, 16), gpt2(1, 32, 4) | {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": 1}),
    "llama-1b": (llama(16, 2048, 32, 8, 8192, 128256), llama(1, 32, 4, 2, 64, 100)),
}


def weights_of_bert(config):
    """Names and shapes of a BertModel's tensors."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes = {f"embeddings.{name}_embeddings.weight": [config[extent], hidden] for name, extent in
              (("word", "vocab_size"), ("position", "max_position_embeddings"), ("token_type", "type_vocab_size"))}

    def norm(name):
        shapes[name + ".weight"] = shapes[name + ".bias"] = [hidden]

    def linear(name, outputs, inputs):
        shapes[name + ".weight"], shapes[name + ".bias"] = [outputs, inputs], [outputs]

    norm("embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        place = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            linear(place + "attention.self." + part, hidden, hidden)
        linear(place + "attention.output.dense", hidden, hidden)
        norm(place + "attention.output.LayerNorm")
        linear(place + "intermediate.dense", inner, hidden)
        linear(place + "output.dense", hidden, inner)
        norm(place + "output.LayerNorm")
    linear("pooler.dense", hidden, hidden)
    return shapes


def write_weights(path, shapes):
    """Small numbers from a seed, over and over: what they are does not matter, that they are the same does."""
    random.seed(1)
    pattern = array.array("f", (random.gauss(0, 0.02) for _ in range(65521)))
    ones = array.array("f", [1.0])
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            source = (ones if name.endswith("LayerNorm.weight") else pattern).tobytes()
            size = 4 * math.prod(shape)
            while size > 0:
                size -= file.write(source[:size])


def main():
    scale, name, directory = sys.argv[1:]
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    config = MODELS[name][scale == "dry"]
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    if name == "bert":
        write_weights(os.path.join(folder, "model.safetensors"), weights_of_bert(config))
    rows, length = (2, 16) if scale == "dry" else (8, 128)
    ids = [(i * 7919) % 90 + 5 for i in range(rows * length)]
    header = json.dumps({"input_ids": {"dtype": "I64", "shape": [rows, length],
                                       "data_offsets": [0, 8 * rows * length]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(os.path.join(folder, "inputs.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(ids)}q", *ids))


main()
