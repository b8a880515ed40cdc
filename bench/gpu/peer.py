#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same work by torch on the same GPU: a product, or a training step under torch.compile in bf16 autocast.

  bench/gpu/peer.py product
  bench/gpu/peer.py train DIRECTORY BATCH LENGTH
"""
import statistics
import sys
import time


def timed(step, torch, seconds=5.0):
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def product(torch):
    for dtype in (torch.float32, torch.bfloat16):
        x, y = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
        seconds = timed(lambda: x @ y.T, torch)
        print(f"{dtype} 8192^3: {seconds * 1e3:.2f} ms, {2 * 8192**3 / seconds / 1e12:.0f} TFLOP/s", flush=True)


def train(torch, directory, batch, length):
    import transformers
    config = transformers.AutoConfig.from_pretrained(directory)
    model = getattr(transformers, config.architectures[0])(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    ids = torch.randint(0, config.vocab_size, (batch, length), device="cuda")

    def loss_of(tokens):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(input_ids=tokens, labels=tokens).loss

    compiled = torch.compile(loss_of)

    def step():
        compiled(ids).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    seconds = timed(step, torch)
    print(f"{directory} {batch}x{length}: {seconds * 1e3:.1f} ms a step, {batch * length / seconds:.0f} tokens/s, "
          f"torch {torch.__version__}, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


def main():
    try:
        import torch
    except ImportError:
        print("no torch here: no peer to compare with")
        return
    if sys.argv[1] == "product":
        product(torch)
    else:
        train(torch, sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))


main()
