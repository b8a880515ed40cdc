#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes language models with random weights as GGUF files, of the shapes of GPT-2, LLaMA-160M, a LLaMA of 1B, a
decoder of 64 experts that computes with a billion of its numbers (Qwen3-MoE), and hybrids of a billion (LFM2: short
convolutions; Qwen3.5: the gated delta rule), for `decode_race.py` and `serve_race.py`: a decoder's time does not depend
on what its weights are.

  random_gguf.py FOLDER [--models gpt2 llama-160m llama-1b experts-1b lfm2-1b qwen35-1b] [--types q4_0 q8_0 bf16]"""
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
    head_size: int = 0
    experts: int = 0
    attends: tuple = ()  # the layers with attention, of hybrids

    def __post_init__(self):
        self.head_size = self.head_size or self.width // self.heads


SHAPES = {
    "gpt2": Shape("gpt2", 768, 12, 3072, 12, 12, 50257),
    "llama-160m": Shape("llama", 768, 12, 3072, 12, 12, 32000),
    "llama-1b": Shape("llama", 2048, 22, 5632, 32, 4, 32000),
    "experts-1b": Shape("qwen3moe", 2048, 16, 1024, 16, 4, 32000, head_size=128, experts=64),
    "lfm2-1b": Shape("lfm2", 2048, 16, 8192, 32, 8, 32000, attends=(2, 5, 8, 10, 12, 14)),
    "qwen35-1b": Shape("qwen35", 2048, 24, 6144, 8, 2, 32000, head_size=256, attends=tuple(range(3, 24, 4))),
}
CHOSEN = 8
DELTA_HEADS, DELTA_SIZE = 16, 128
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


class Writer(gguf.GGUFWriter):
    def __init__(self, path, shape, type_name):
        # Tensors wait in a file, not in memory.
        super().__init__(path, shape.family, use_temp_file=True)
        self.shape, self.type_name = shape, type_name

    def matrix(self, name, outputs, inputs):
        self.add_tensor(name + ".weight", blocks(self.type_name, outputs, inputs), raw_dtype=TYPES[self.type_name])

    def stack(self, name, count, outputs, inputs):
        made = blocks(self.type_name, count * outputs, inputs)
        self.add_tensor(name + ".weight", made.reshape(count, outputs, -1), raw_dtype=TYPES[self.type_name])

    def vector(self, name, length, value):
        self.add_tensor(name, np.full(length, value, np.float32))

    def plain(self, name, *sizes):
        made = random.standard_normal(sizes, dtype=np.float32) * np.float32(1 / np.sqrt(sizes[-1]))
        self.add_tensor(name + ".weight", made)


def write_head(writer, shape):
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
    writer.matrix("token_embd", shape.vocabulary, shape.width)


def write_gpt2(writer, shape):
    writer.add_layer_norm_eps(1e-5)
    writer.vector("output_norm.weight", shape.width, 1)
    writer.vector("output_norm.bias", shape.width, 0)
    writer.add_tensor("position_embd.weight",
                      random.standard_normal((1024, shape.width), dtype=np.float32) * np.float32(0.02))
    for i in range(shape.layers):
        for name, outputs, inputs in (("attn_qkv", 3 * shape.width, shape.width),
                                      ("attn_output", shape.width, shape.width),
                                      ("ffn_up", shape.inner, shape.width), ("ffn_down", shape.width, shape.inner)):
            writer.matrix(f"blk.{i}.{name}", outputs, inputs)
            writer.vector(f"blk.{i}.{name}.bias", outputs, 0)
        for name in ("attn_norm", "ffn_norm"):
            writer.vector(f"blk.{i}.{name}.weight", shape.width, 1)
            writer.vector(f"blk.{i}.{name}.bias", shape.width, 0)


def write_keys(writer, shape):
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_rope_dimension_count(shape.head_size // 4 if shape.family == "qwen35" else shape.head_size)
    if shape.family == "lfm2":
        writer.add_head_count_kv([shape.key_heads if i in shape.attends else 0 for i in range(shape.layers)])
        writer.add_shortconv_l_cache(3)
    else:
        writer.add_head_count_kv(shape.key_heads)
    if shape.family != "llama":
        writer.add_key_length(shape.head_size)
        writer.add_value_length(shape.head_size)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(CHOSEN)
        writer.add_expert_feed_forward_length(shape.inner)
    if shape.family == "qwen35":
        writer.add_ssm_conv_kernel(4)
        writer.add_ssm_state_size(DELTA_SIZE)
        writer.add_ssm_group_count(DELTA_HEADS)
        writer.add_ssm_time_step_rank(DELTA_HEADS)
        writer.add_ssm_inner_size(DELTA_HEADS * DELTA_SIZE)
        writer.add_rope_dimension_sections([11, 11, 10, 0])
        writer.add_uint32("qwen35.full_attention_interval", 4)


def write_attention(writer, shape, at):
    queries = shape.heads * shape.head_size
    writer.matrix(at + "attn_q", (2 if shape.family == "qwen35" else 1) * queries, shape.width)
    writer.matrix(at + "attn_k", shape.key_heads * shape.head_size, shape.width)
    writer.matrix(at + "attn_v", shape.key_heads * shape.head_size, shape.width)
    writer.matrix(at + "attn_output", shape.width, queries)
    if shape.family != "llama":
        writer.vector(at + "attn_q_norm.weight", shape.head_size, 1)
        writer.vector(at + "attn_k_norm.weight", shape.head_size, 1)


def write_delta_rule(writer, shape, at):
    inner = DELTA_HEADS * DELTA_SIZE
    writer.matrix(at + "attn_qkv", 3 * inner, shape.width)
    writer.matrix(at + "attn_gate", inner, shape.width)
    writer.matrix(at + "ssm_beta", DELTA_HEADS, shape.width)
    writer.matrix(at + "ssm_alpha", DELTA_HEADS, shape.width)
    writer.plain(at + "ssm_conv1d", 3 * inner, 4)
    writer.vector(at + "ssm_dt.bias", DELTA_HEADS, 0)
    writer.vector(at + "ssm_a", DELTA_HEADS, -1)
    writer.vector(at + "ssm_norm.weight", DELTA_SIZE, 1)
    writer.matrix(at + "ssm_out", shape.width, inner)


def write_decoder(writer, shape):
    write_keys(writer, shape)
    if shape.family == "lfm2":
        writer.vector("token_embd_norm.weight", shape.width, 1)
    else:
        writer.vector("output_norm.weight", shape.width, 1)
        writer.matrix("output", shape.vocabulary, shape.width)
    for i in range(shape.layers):
        at = f"blk.{i}."
        writer.vector(at + "attn_norm.weight", shape.width, 1)
        second = "post_attention_norm" if shape.family == "qwen35" else "ffn_norm"
        writer.vector(f"{at}{second}.weight", shape.width, 1)
        if not shape.attends or i in shape.attends:
            write_attention(writer, shape, at)
        elif shape.family == "qwen35":
            write_delta_rule(writer, shape, at)
        else:
            writer.plain(at + "shortconv.conv", shape.width, 3)
            writer.matrix(at + "shortconv.in_proj", 3 * shape.width, shape.width)
            writer.matrix(at + "shortconv.out_proj", shape.width, shape.width)
        feed_forward = (("gate", shape.inner, shape.width), ("up", shape.inner, shape.width),
                        ("down", shape.width, shape.inner))
        for name, outputs, inputs in feed_forward:
            if shape.experts:
                writer.stack(f"{at}ffn_{name}_exps", shape.experts, outputs, inputs)
            else:
                writer.matrix(f"{at}ffn_{name}", outputs, inputs)
        if shape.experts:
            writer.plain(at + "ffn_gate_inp", shape.experts, shape.width)


def write(path, shape, type_name):
    writer = Writer(path, shape, type_name)
    write_head(writer, shape)
    (write_gpt2 if shape.family == "gpt2" else write_decoder)(writer, shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=["gpt2", "llama-160m", "llama-1b"])
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for model in options.models:
        for name in options.types:
            write(options.folder / f"{model}-{name}.gguf", SHAPES[model], name)


if __name__ == "__main__":
    main()
