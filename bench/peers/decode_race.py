#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of text generation from GGUF files, by `transom bench` and by llama.cpp, in turns.

  decode_race.py --transom build/release/bin/transom MODEL.gguf ... [--batch_size 1 --sequence_length 16 \
    --max_new_tokens 64 --rounds 3 --threads 2]

Both read a prompt of as many tokens and write as many, greedily. A round is a process of each; shown are medians over all
steps of all rounds. llama.cpp is measured with one text at a time, by llama-cpp-python; where that is not installed,
Transom runs alone."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("models", nargs="+")
parser.add_argument("--transom", required=True)
parser.add_argument("--batch_size", type=int, default=1)
parser.add_argument("--sequence_length", type=int, default=16)
parser.add_argument("--max_new_tokens", type=int, default=64)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--peer", action="store_true", help="run llama.cpp alone (used by the script itself)")
options = parser.parse_args()


def peer(model):
    """Seconds of reading the prompt and of each step, as JSON on standard output."""
    import llama_cpp

    started = time.perf_counter()
    llm = llama_cpp.Llama(model_path=model, n_ctx=options.sequence_length + options.max_new_tokens + 8,
                          n_threads=options.threads, n_threads_batch=options.threads, verbose=False)
    loaded = time.perf_counter() - started
    tokens = [3 + 7 * i % 200 for i in range(options.sequence_length)]
    runs = []
    for _ in range(2):  # the first warms up
        llm.reset()
        begin = time.perf_counter()
        llm.eval(tokens)
        prefill, steps = time.perf_counter() - begin, []
        for i in range(options.max_new_tokens - 1):
            begin = time.perf_counter()
            llm.eval([5 + i % 100])
            steps.append(time.perf_counter() - begin)
        runs.append((prefill, steps))
    print(json.dumps({"load": loaded, "prefill": [runs[-1][0]], "decode": runs[-1][1]}))


def ours(model):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run([options.transom, "bench", model, "--task", "text-generation", "--dtype", "auto", "--batch_size",
                        str(options.batch_size), "--sequence_length", str(options.sequence_length), "--max_new_tokens",
                        str(options.max_new_tokens), "--warmup_runs", "0", "--iterations", "1", "--duration", "0",
                        "--threads", str(options.threads), "--json", str(report)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        phases = json.loads(report.read_text())["report"]
        return {"load": phases["load_model"]["latency"]["values"][0], "prefill": phases["prefill"]["latency"]["values"],
                "decode": phases["decode"]["latency"]["values"]}


def theirs(model):
    done = subprocess.run([sys.executable, *sys.argv[:1], model, "--peer", "--transom", options.transom,
                           "--sequence_length", str(options.sequence_length), "--max_new_tokens",
                           str(options.max_new_tokens), "--threads", str(options.threads)],
                          capture_output=True, text=True, env=dict(os.environ))
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None


if options.peer:
    peer(options.models[0])
    sys.exit()
print(f"{'model':<28} {'who':<10} {'load s':>8} {'prefill tok/s':>14} {'decode tok/s':>13}")
for model in options.models:
    results = {"transom": [], "llama.cpp": []}
    for _ in range(options.rounds):
        results["transom"].append(ours(model))
        if (found := theirs(model)) is not None:
            results["llama.cpp"].append(found)
    rates = {}
    for who, rounds in results.items():
        if not rounds:
            continue
        rows = options.batch_size if who == "transom" else 1
        median = {name: statistics.median(x for r in rounds for x in r[name]) for name in ("prefill", "decode")}
        rates[who] = rows / median["decode"]
        load = statistics.median(r["load"] for r in rounds)
        print(f"{Path(model).name:<28} {who:<10} {load:>8.2f} {rows * options.sequence_length / median['prefill']:>14.1f} "
              f"{rates[who]:>13.1f}", flush=True)
    if len(rates) == 2:
        print(f"{Path(model).name:<28} ratio of decoding {rates['transom'] / rates['llama.cpp']:.2f}", flush=True)
