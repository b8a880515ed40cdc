#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second and memory of each process of sharded training: `transom train --fsdp full_shard` over gloo beside
PyTorch's FSDP2 (fully_shard of each layer) over gloo, in turns, from the same random LLaMA, rows and order of rows.

  fsdp_race.py --transom build/release/bin/transom [--ranks 2 --width 512 --layers 8 --rows 4 --length 128 \
    --updates 12 --rounds 3]

Before the rounds all processes together compute the products of an update and nothing else, by PyTorch's library: what
they take bounds the tokens a second of any program whose products are as fast.

Both train with AdamW and clip gradients, in f32, or with --bf16 in bf16 with f32 master weights: `--bf16`, and FSDP2's
mixed precision, which computes all in bf16 and reduces gradients in f32. A round is a run of each; shown are medians
over the updates of all rounds behind the first ones of each run, the largest peak of resident memory of a process, and
how far losses differ."""
import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--transom")
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--threads", type=int, default=1, help="of each process")
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--vocabulary", type=int, default=8003)
parser.add_argument("--rows", type=int, default=4, help="of each process in an update")
parser.add_argument("--length", type=int, default=128, help="tokens of a row")
parser.add_argument("--updates", type=int, default=12)
parser.add_argument("--warm", type=int, default=4, help="updates before those")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--bf16", action="store_true")
parser.add_argument("--products", action="store_true", help="time products alone (used by the script itself)")
parser.add_argument("--peer", help="run a process of PyTorch on this folder (used by the script itself)")
options = parser.parse_args()

RATE, DECAY, CLIP = 1e-3, 0.01, 1.0
STEPS = options.warm + options.updates


def write_model(folder):
    import transformers

    transformers.set_seed(1)
    heads = options.width // 64
    config = transformers.LlamaConfig(
        vocab_size=options.vocabulary, hidden_size=options.width, intermediate_size=options.width * 8 // 3 // 8 * 8,
        num_hidden_layers=options.layers, num_attention_heads=heads, num_key_value_heads=heads,
        max_position_embeddings=options.length, pad_token_id=0, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def write_rows(path):
    draw = random.Random(2)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(STEPS * options.rows * options.ranks):
            ids = [draw.randrange(3, options.vocabulary) for _ in range(options.length)]
            file.write(json.dumps({"input_ids": ids}) + "\n")


def peer(folder):
    """One process of PyTorch; rank 0 writes each update as JSON on standard output."""
    import torch
    import transformers
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    torch.set_num_threads(options.threads)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (options.ranks,))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.config.use_cache = False
    model.train()
    policy = {}
    if options.bf16:
        policy["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, **policy)
    fully_shard(model, mesh=mesh, **policy)
    norms = [parameter for name, parameter in model.named_parameters() if "norm" in name]
    others = [parameter for name, parameter in model.named_parameters() if "norm" not in name]
    optimizer = torch.optim.AdamW(
        [{"params": others, "weight_decay": DECAY}, {"params": norms, "weight_decay": 0.0}], lr=RATE)
    with open(os.path.join(folder, "rows.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line)["input_ids"] for line in file]
    for step in range(STEPS):
        first = (step * options.ranks + rank) * options.rows
        ids = torch.tensor(rows[first:first + options.rows])
        loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        if rank == 0:
            print(json.dumps({"step": step + 1, "loss": mean.item() / options.ranks}), flush=True)
    torch.distributed.destroy_process_group()


def products():
    """Rank 0 writes the seconds that the products of an update take, of its rows, at best of several times."""
    import torch

    torch.set_num_threads(options.threads)
    torch.distributed.init_process_group("gloo")
    width, inner, tokens = options.width, options.width * 8 // 3 // 8 * 8, options.rows * options.length
    shapes = [(width, width, 4 * options.layers), (width, inner, 2 * options.layers), (inner, width, options.layers),
              (width, options.vocabulary, 1)]
    total = 0
    for depth, columns, count in shapes:
        x, w, g = (torch.randn(*shape).to(torch.bfloat16 if options.bf16 else torch.float32)
                   for shape in ((tokens, depth), (columns, depth), (tokens, columns)))
        for product in (lambda: x @ w.T, lambda: g @ w, lambda: g.T @ x):  # the result, and gradients of both inputs
            torch.distributed.barrier()
            times = []
            for _ in range(12):
                begin = time.perf_counter()
                product()
                times.append(time.perf_counter() - begin)
            total += count * statistics.median(times[2:])
    if torch.distributed.get_rank() == 0:
        print(total, flush=True)
    torch.distributed.destroy_process_group()


def precision():
    return ["--bf16"] if options.bf16 else []


def seconds_of_products():
    port = str(free_port())
    shape = [f"--{name}={getattr(options, name)}" for name in ("threads", "width", "layers", "vocabulary", "rows", "length")]
    processes = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--products", *shape, *precision()], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(options.ranks),
                                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                                       "OMP_NUM_THREADS": str(options.threads)}) for rank in range(options.ranks)]
    return float([process.communicate()[0] for process in processes][0])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def watch_memory(processes, peaks):
    """Megabytes that were resident at the worst moment of each process, while any of them runs."""
    while any(process.poll() is None for process in processes):
        for i, process in enumerate(processes):
            try:
                with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
                    for line in file:
                        if line.startswith("VmHWM"):
                            peaks[i] = max(peaks[i], int(line.split()[1]) / 1e3)
            except OSError:
                pass
        time.sleep(0.05)


def run(command, folder):
    """Seconds of each update behind the first ones, losses, and the largest peak of memory."""
    port = free_port()
    processes = []
    errors = [tempfile.TemporaryFile("w+") for _ in range(options.ranks)]
    for rank in range(options.ranks):
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(options.ranks),
                       "LOCAL_WORLD_SIZE": str(options.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       "OMP_NUM_THREADS": str(options.threads), "TRANSOM_NUM_THREADS": str(options.threads),
                       "HF_HUB_OFFLINE": "1"}
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                                          stderr=errors[rank], text=True, env=environment, cwd=folder))
    peaks = [0.0] * options.ranks
    watcher = threading.Thread(target=watch_memory, args=(processes, peaks))
    watcher.start()
    times, losses = [], []
    for line in processes[0].stdout:
        if line.startswith("{") and "loss" in (update := json.loads(line)) and "step" in update:
            times.append(time.perf_counter())
            losses.append(update["loss"])
    status = [process.wait() for process in processes]
    watcher.join()
    if any(status) or len(times) != STEPS:
        for error in errors:
            error.seek(0)
            sys.stderr.write(error.read()[-2000:])
        sys.exit(f"{command[0]}: ended with {status} after {len(times)} of {STEPS} updates")
    seconds = [after - before for before, after in zip(times[options.warm - 1:], times[options.warm:])]
    return seconds, losses, max(peaks)


def main():
    if not options.transom:
        parser.error("--transom is missing: the program")
    with tempfile.TemporaryDirectory(prefix="transom-fsdp-") as folder:
        count = write_model(folder)
        rows = os.path.join(folder, "rows.jsonl")
        write_rows(rows)
        shape = [f"--{name}={getattr(options, name)}" for name in
                 ("ranks", "threads", "vocabulary", "rows", "length", "updates", "warm")]
        contenders = {
            "transom": [os.path.abspath(options.transom), "train", "--json", "--device", "cpu", "--task",
                        "text-generation", "--fsdp", "full_shard", "--ddp_backend", "gloo", "--model_name_or_path",
                        folder, "--train_file", rows, "--output_dir", os.path.join(folder, "out"),
                        "--per_device_train_batch_size", str(options.rows), "--max_steps", str(STEPS),
                        "--learning_rate", str(RATE), "--lr_scheduler_type", "constant", "--weight_decay", str(DECAY),
                        "--max_grad_norm", str(CLIP), "--train_sampling_strategy", "sequential", "--logging_steps",
                        "1", "--save_strategy", "no", *precision()],
            "pytorch": [sys.executable, os.path.abspath(__file__), "--peer", folder, *shape, *precision()]}
        alone = seconds_of_products()
        seconds, losses, memory = {}, {}, {}
        for turn in range(options.rounds):
            for name in contenders if turn % 2 else reversed(contenders):
                took, losses[name], peak = run(contenders[name], folder)
                seconds.setdefault(name, []).extend(took)
                memory[name] = max(memory.get(name, 0), peak)
    tokens = options.ranks * options.rows * options.length
    print(f"LLaMA of {count / 1e6:.1f} M parameters, {options.ranks} processes of {options.threads} threads, "
          f"{tokens} tokens an update in {'bf16' if options.bf16 else 'f32'}")
    flops = 6 * tokens * (count - options.vocabulary * options.width)  # the table is looked up
    print(f"its products alone, by PyTorch's library: {tokens / alone:9.1f} tokens a second, {flops / alone * 1e-9:.0f} GFLOP/s")
    for name in contenders:
        print(f"{name:8} {tokens / statistics.median(seconds[name]):9.1f} tokens a second (at best "
              f"{tokens / min(seconds[name]):.1f}), {memory[name]:7.0f} MB a process")
    apart = max(abs(a - b) / abs(b) for a, b in zip(losses["transom"], losses["pytorch"]))
    print(f"speed by PyTorch's {statistics.median(seconds['pytorch']) / statistics.median(seconds['transom']):.2f}, "
          f"memory {memory['pytorch'] / memory['transom']:.2f}, losses apart by {apart:.1e} at most")


if options.peer:
    peer(options.peer)
elif options.products:
    products()
else:
    main()
