# SPDX-License-Identifier: Apache-2.0
"""How GPTQ, AWQ, compressed-tensors, fp8 and nf4 hold a weight, by their definitions: tensors, and the weight again."""

import json

import torch


def groups(weight, size):
    return weight.reshape(weight.shape[0], -1, size)


def packed(values, axis=-1):
    """Eight values of 4 bits a word, the first in the lowest bits."""
    values = values.to(torch.int64).movedim(axis, -1)
    words = (values.reshape(*values.shape[:-1], -1, 8) << (4 * torch.arange(8))).sum(-1)
    words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    return words.movedim(-1, axis).contiguous()


def symmetric(weight, size, dtype, levels=7):
    grouped = groups(weight, size)
    scale = (grouped.abs().amax(-1) / levels).clamp(min=1e-6).to(dtype).float()
    q = (grouped / scale[..., None]).round().clamp(-8, 7)
    return q.reshape(weight.shape), scale, (q * scale[..., None]).reshape(weight.shape)


def asymmetric(weight, size):
    grouped = groups(weight, size)
    low, high = grouped.amin(-1).clamp(max=0), grouped.amax(-1).clamp(min=0)
    scale = ((high - low) / 15).clamp(min=1e-6).half().float()
    zero = (-low / scale).round().clamp(0, 15)
    q = ((grouped / scale[..., None]).round() + zero[..., None]).clamp(0, 15)
    return q.reshape(weight.shape), scale, zero, ((q - zero[..., None]) * scale[..., None]).reshape(weight.shape)


def gptq(weight, group, act_order, random):
    """weight [N, K] -> tensors of the file, dequantised weight."""
    if not act_order:
        q, scale, made = symmetric(weight, group, torch.float16)
        zeros = torch.full(scale.T.shape, 7.0)  # the first version stores a point less one
        index = torch.arange(weight.shape[1]) // group
        return {
            "qweight": packed((q + 8).T, 0),
            "qzeros": packed(zeros),
            "scales": scale.T.half().contiguous(),
            "g_idx": index.to(torch.int32),
        }, made
    order = torch.randperm(weight.shape[1], generator=random)
    q, scale, zero, made = asymmetric(weight[:, order], group)
    index = torch.empty_like(order)
    index[order] = torch.arange(len(order)) // group
    back = torch.argsort(order)
    return {
        "qweight": packed(q[:, back].T, 0),
        "qzeros": packed(zero.T),
        "scales": scale.T.half().contiguous(),
        "g_idx": index.to(torch.int32),
    }, made[:, back]


def awq(weight, group, *_):
    q, scale, zero, made = asymmetric(weight, group)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])

    def interleaved(values):  # [rows, N]
        return packed(values.reshape(values.shape[0], -1, 8)[..., order].reshape(values.shape))

    return {"qweight": interleaved(q.T), "qzeros": interleaved(zero.T), "scales": scale.T.half().contiguous()}, made


def ct_int4(weight, group, *_):
    q, scale, made = symmetric(weight, group, torch.bfloat16)
    return {
        "weight_packed": packed(q + 8),
        "weight_scale": scale.bfloat16(),
        "weight_shape": torch.tensor(weight.shape),
    }, made


def ct_int8(weight, *_):
    scale = (weight.abs().amax(1, keepdim=True) / 127.5).float()
    q = (weight / scale).round().clamp(-128, 127)
    return {"weight": q.to(torch.int8), "weight_scale": scale}, q * scale


def fp8(weight, *_):
    grid = [(size + 127) // 128 for size in weight.shape]
    scales, q, made = torch.empty(grid), torch.empty(weight.shape, dtype=torch.float8_e4m3fn), torch.empty_like(weight)
    for i in range(grid[0]):
        for j in range(grid[1]):
            block = weight[i * 128 : (i + 1) * 128, j * 128 : (j + 1) * 128]
            scales[i, j] = block.abs().max() / 448
            small = (block / scales[i, j]).to(torch.float8_e4m3fn)
            q[i * 128 : (i + 1) * 128, j * 128 : (j + 1) * 128] = small
            made[i * 128 : (i + 1) * 128, j * 128 : (j + 1) * 128] = small.float() * scales[i, j]
    return {"weight": q, "weight_scale_inv": scales}, made


NF4 = torch.tensor(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ]
)


def dynamic_map():
    """The 256 numbers by which bitsandbytes rounds the maxima of blocks."""
    values = []
    for i in range(7):
        ends = torch.linspace(0.1, 1, 2**i + 1)
        means = (ends[:-1] + ends[1:]) / 2 * 10.0 ** (i - 6)
        values += means.tolist() + (-means).tolist()
    return torch.tensor(sorted([*values, 0.0, 1.0]))


MXFP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def mxfp4(weight):
    """[experts, rows, columns] as blocks and scales; what they stand for is what transformers makes of them."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    groups = weight.reshape(*weight.shape[:2], -1, 32)
    power = torch.ceil(torch.log2(groups.abs().amax(-1) / 6)).clamp(-100, 100)
    q = ((groups / 2.0 ** power[..., None])[..., None] - MXFP4).abs().argmin(-1)
    blocks, scales = (q[..., 0::2] + 16 * q[..., 1::2]).to(torch.uint8), (power + 127).to(torch.uint8)
    return blocks, scales, convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)


def nf4(weight, *_):
    blocks = weight.reshape(-1, 64)
    largest = blocks.abs().amax(1)
    offset, numbers = largest.mean(), dynamic_map()
    nested = []
    codes = torch.empty(len(largest), dtype=torch.uint8)
    for begin in range(0, len(largest), 256):
        part = largest[begin : begin + 256] - offset
        nested.append(part.abs().max())
        codes[begin : begin + 256] = ((part / nested[-1])[:, None] - numbers).abs().argmin(1).to(torch.uint8)
    nested = torch.stack(nested)
    scale = numbers[codes.long()] * nested.repeat_interleave(256)[: len(largest)] + offset
    q = ((blocks / scale[:, None])[..., None] - NF4).abs().argmin(-1)
    made = (NF4[q] * scale[:, None]).reshape(weight.shape)
    q = q.reshape(-1, 2)
    state = dict(
        quant_type="nf4",
        blocksize=64,
        dtype="float32",
        shape=list(weight.shape),
        nested_blocksize=256,
        nested_dtype="float32",
        nested_offset=float(offset),
    )
    text = json.dumps(state).encode()
    return {
        "weight": (q[:, 0] * 16 + q[:, 1]).to(torch.uint8)[:, None],
        "weight.absmax": codes,
        "weight.quant_map": NF4.clone(),
        "weight.nested_absmax": nested,
        "weight.nested_quant_map": numbers,
        "weight.quant_state.bitsandbytes__nf4": torch.tensor(list(text), dtype=torch.uint8),
    }, made
