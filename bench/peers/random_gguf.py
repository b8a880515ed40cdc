#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes language models with random weights as GGUF files, of the shapes of GPT-2, LLaMA-160M and a LLaMA of 1B, for
`decode_race.py`: a decoder's time does not depend on what its weights are.

  random_gguf.py FOLDER [--models gpt2 llama-160m llama-1b] [--types q4_0 q8_0 bf16]"""
import argparse
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np


@dataclass
class Shape:
    family: str
    width: int
    layers: int
    inner: int
    heads: int
    key_heads: int
    vocabulary: int


SHAPES = {
    "gpt2": Shape("gpt2", 768, 12, 3072, 12, 12, 50257),
    "llama-160m": Shape("llama", 768, 12, 3072, 12, 12, 32000),
    "llama-1b": Shape("llama", 2048, 22, 5632, 32, 4, 32000),
}
TYPES = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q8_0": gguf.GGMLQuantizationType.Q8_0,
         "bf16": gguf.GGMLQuantizationType.BF16}
random = np.random.default_rng(0)


def blocks(type_name, outputs, inputs):
    """Random bytes as a matrix [outputs, inputs] of this type, its numbers of the size of 1 / sqrt(inputs)."""
    if type_name == "bf16":
        numbers = random.standard_normal((outputs, inputs), dtype=np.float32) * np.float32(1 / np.sqrt(inputs))
        return (numbers.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    _, size = gguf.GGML_QUANT_SIZES[TYPES[type_name]]
    made = random.integers(0, 256, (outputs, inputs // 32, size), dtype=np.uint8)
    spread = 4.6 if type_name == "q4_0" else 74
    made[:, :, :2] = np.frombuffer(np.float16(1 / np.sqrt(inputs) / spread).tobytes(), np.uint8)
    return made.reshape(outputs, -1)


def write(path, shape, type_name):
    writer = gguf.GGUFWriter(path, shape.family)
    writer.add_block_count(shape.layers)
    writer.add_context_length(1024 if shape.family == "gpt2" else 2048)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_vocab_size(shape.vocabulary)
    # A vocabulary in name alone, which llama.cpp's server asks for.
    writer.add_tokenizer_model("llama")
    known = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    writer.add_token_list(known + [f"t{i}" for i in range(shape.vocabulary - len(known))])
    writer.add_token_scores([0.0] * shape.vocabulary)
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (shape.vocabulary - len(known)))

    def matrix(name, outputs, inputs):
        writer.add_tensor(name, blocks(type_name, outputs, inputs), raw_dtype=TYPES[type_name])

    def vector(name, length, value):
        writer.add_tensor(name, np.full(length, value, np.float32))

    matrix("token_embd.weight", shape.vocabulary, shape.width)
    vector("output_norm.weight", shape.width, 1)
    if shape.family == "gpt2":
        writer.add_layer_norm_eps(1e-5)
        vector("output_norm.bias", shape.width, 0)
        writer.add_tensor("position_embd.weight", random.standard_normal((1024, shape.width), dtype=np.float32) * np.float32(0.02))
        for i in range(shape.layers):
            for name, outputs, inputs in (("attn_qkv", 3 * shape.width, shape.width),
                                          ("attn_output", shape.width, shape.width),
                                          ("ffn_up", shape.inner, shape.width), ("ffn_down", shape.width, shape.inner)):
                matrix(f"blk.{i}.{name}.weight", outputs, inputs)
                vector(f"blk.{i}.{name}.bias", outputs, 0)
            for name in ("attn_norm", "ffn_norm"):
                vector(f"blk.{i}.{name}.weight", shape.width, 1)
                vector(f"blk.{i}.{name}.bias", shape.width, 0)
    else:
        writer.add_head_count_kv(shape.key_heads)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(1e4)
        writer.add_rope_dimension_count(shape.width // shape.heads)
        matrix("output.weight", shape.vocabulary, shape.width)
        keys = shape.width // shape.heads * shape.key_heads
        for i in range(shape.layers):
            for name, outputs, inputs in (("attn_q", shape.width, shape.width), ("attn_k", keys, shape.width),
                                          ("attn_v", keys, shape.width), ("attn_output", shape.width, shape.width),
                                          ("ffn_gate", shape.inner, shape.width), ("ffn_up", shape.inner, shape.width),
                                          ("ffn_down", shape.width, shape.inner)):
                matrix(f"blk.{i}.{name}.weight", outputs, inputs)
            for name in ("attn_norm", "ffn_norm"):
                vector(f"blk.{i}.{name}.weight", shape.width, 1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
options = parser.parse_args()
options.folder.mkdir(parents=True, exist_ok=True)
for model in options.models:
    for name in options.types:
        write(options.folder / f"{model}-{name}.gguf", SHAPES[model], name)
