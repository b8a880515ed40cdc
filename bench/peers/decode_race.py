#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of text generation from GGUF files, by `transom bench`, llama.cpp and ik_llama.cpp, in turns.

  decode_race.py --transom build/release/bin/transom MODEL.gguf ... [--batch_size 1 --sequence_length 16 \
    --max_new_tokens 64 --rounds 3 --threads 2 --peers llama.cpp ik_llama.cpp]

With --first_token it is the seconds from the start of loading to the first token of a fresh process instead, compilation
included.

All read as many prompts of as many tokens and write as many, greedily. A round is a process of each; shown are medians
over all steps of all rounds, and the ratio of the fastest steps. llama.cpp comes by llama-cpp-python, built for the
processor, or by xllamacpp, built for AVX2 (race it with TRANSOM_CPU_ISA=avx2, too; one row alone, timed by llama.cpp's
own server); ik_llama.cpp by ik-llama-cpp-python, built for AVX2. Of a peer that does not run it is said why, once.
`random_gguf.py` writes models to race with."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

PEERS = ["llama.cpp", "ik_llama.cpp"]
parser = argparse.ArgumentParser()
parser.add_argument("models", nargs="+")
parser.add_argument("--transom", required=True)
parser.add_argument("--batch_size", type=int, default=1)
parser.add_argument("--sequence_length", type=int, default=16)
parser.add_argument("--max_new_tokens", type=int, default=64)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--first_token", action="store_true", help="seconds from the start of loading to the first token")
parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS[:1])
parser.add_argument("--repack", action="store_true", help="ik_llama.cpp repacks weights as it loads them (its -rtr)")
parser.add_argument("--peer", choices=PEERS, help="run this peer alone (used by the script itself)")
options = parser.parse_args()


class Library:
    """What both libraries have, in their own words."""

    def __init__(self, name):
        import ctypes

        if name == "llama.cpp":
            import llama_cpp as library
            silent = library.llama_log_callback(lambda level, text, data: None)
            library.llama_log_set(silent, ctypes.c_void_p(0))
            self.keep = silent
        else:
            from ik_llama_cpp import _ctypes_api as library
        self.all, self.name = library, name

    def model_options(self):
        wanted = self.all.llama_model_default_params()
        if self.name == "ik_llama.cpp":
            wanted.repack_tensors = options.repack
        return wanted

    def forget(self, context):
        if self.name == "llama.cpp":
            self.all.llama_memory_clear(self.all.llama_get_memory(context), True)
        else:
            self.all.llama_kv_cache_clear(context)


def peer(model):
    """Seconds of reading the prompts and of each step, as JSON on standard output: greedy, all rows in one pass, by
    the library's own functions, since its Python class copies the scores of all tokens."""
    import numpy

    rows, length = options.batch_size, options.sequence_length
    started = time.perf_counter()
    library = Library(options.peer)
    llama = library.all
    llama.llama_backend_init()
    loaded = llama.llama_model_load_from_file(model.encode(), library.model_options())
    if not loaded:
        sys.exit(f"{model}: {options.peer} does not load it")
    wanted = llama.llama_context_default_params()
    wanted.n_ctx = -(-(length + options.max_new_tokens) // 256) * 256 * rows
    wanted.n_seq_max, wanted.n_batch = rows, max(512, rows * length)
    wanted.n_threads = wanted.n_threads_batch = options.threads
    context = llama.llama_init_from_model(loaded, wanted)
    if not context:
        sys.exit(f"{model}: {options.peer} makes no context of {rows} rows")
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(loaded))
    seconds = time.perf_counter() - started
    batch = llama.llama_batch_init(rows * length, 0, 1)

    def decode(tokens, places):
        """What follows each row: `tokens` [rows][count] at the places from `places` on."""
        count = len(tokens[0])
        batch.n_tokens = rows * count
        for row, own in enumerate(tokens):
            for i, token in enumerate(own):
                at = row * count + i
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, places + i, 1
                batch.seq_id[at][0], batch.logits[at] = row, i == count - 1
        if llama.llama_decode(context, batch) != 0:
            sys.exit(f"{model}: llama_decode failed")
        return [int(numpy.argmax(numpy.ctypeslib.as_array(
            llama.llama_get_logits_ith(context, row * count + count - 1), (vocabulary,)))) for row in range(rows)]

    prefill, steps, first = [], [], None
    for _ in range(2):  # the first warms up
        library.forget(context)
        prompts = [[3 + (7 * i + row) % 200 for i in range(length)] for row in range(rows)]
        begin = time.perf_counter()
        chosen = decode(prompts, 0)
        prefill, steps = [time.perf_counter() - begin], []
        first = first or seconds + prefill[0]
        for step in range(options.max_new_tokens - 1):
            begin = time.perf_counter()
            chosen = decode([[token] for token in chosen], length + step)
            steps.append(time.perf_counter() - begin)
    print(json.dumps({"load": seconds, "prefill": prefill, "decode": steps, "first": first}), flush=True)
    os._exit(0)  # its threads may go on


def peer_by_server(model):
    """The same for one row, as the server of xllamacpp tells it of its requests."""
    import xllamacpp

    if options.batch_size != 1:
        sys.exit("xllamacpp: one row alone")
    started = time.perf_counter()
    wanted = xllamacpp.CommonParams()
    wanted.model.path, wanted.n_parallel, wanted.warmup, wanted.verbosity = model, 1, True, -1
    wanted.n_ctx = -(-(options.sequence_length + options.max_new_tokens) // 256) * 256
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = options.threads
    server = xllamacpp.Server(wanted)
    seconds = time.perf_counter() - started
    prompt = [3 + 7 * i % 200 for i in range(options.sequence_length)]

    def timings_of(tokens):
        answer = server.handle_completions({"prompt": prompt, "n_predict": tokens, "temperature": 0,
                                            "ignore_eos": True, "cache_prompt": False, "stream": False})
        return (json.loads(answer) if isinstance(answer, (str, bytes)) else answer)["timings"]

    timings_of(1)
    first = time.perf_counter() - started
    timings_of(options.max_new_tokens)  # warms up
    timings = timings_of(options.max_new_tokens)
    if timings["predicted_n"] < options.max_new_tokens or timings["prompt_n"] < options.sequence_length:
        sys.exit(f"{model}: llama.cpp ended early")
    step = timings["predicted_ms"] / 1e3 / timings["predicted_n"]
    print(json.dumps({"load": seconds, "prefill": [timings["prompt_ms"] / 1e3], "decode": [step], "first": first}),
          flush=True)
    os._exit(0)  # its threads go on


def ours(model):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run([options.transom, "bench", model, "--task", "text-generation", "--dtype", "auto", "--batch_size",
                        str(options.batch_size), "--sequence_length", str(options.sequence_length), "--max_new_tokens",
                        str(options.max_new_tokens), "--warmup_runs", "0", "--iterations", "1", "--duration", "0",
                        "--threads", str(options.threads), "--json", str(report)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        phases = json.loads(report.read_text())["report"]
        load = phases["load_model"]["latency"]["values"][0]
        if options.first_token:
            return {"load": load, "first": phases["first_token"]["latency"]["values"][0]}
        return {"load": load, "prefill": phases["prefill"]["latency"]["values"],
                "decode": phases["decode"]["latency"]["values"]}


told = set()  # what was said of a peer that does not run


def theirs(name, model):
    done = subprocess.run([sys.executable, *sys.argv[:1], model, "--peer", name, "--transom", options.transom,
                           "--batch_size", str(options.batch_size), "--sequence_length", str(options.sequence_length),
                           "--max_new_tokens", str(options.max_new_tokens), "--threads", str(options.threads),
                           *(["--repack"] if options.repack else [])], capture_output=True,
                          text=True, env=dict(os.environ))
    if done.returncode == 0 and done.stdout:
        return json.loads(done.stdout.splitlines()[-1])
    said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    if (model, name, said) not in told:
        told.add((model, name, said))
        print(f"{Path(model).name:<28} {name}  does not run: {said}", flush=True)
    return None


def results_of(model):
    results = {name: [] for name in ["transom", *options.peers]}
    for number in range(options.rounds):
        for name in list(results) if number % 2 == 0 else reversed(list(results)):
            found = ours(model) if name == "transom" else theirs(name, model)
            if found is not None:
                results[name].append(found)
    return {name: rounds for name, rounds in results.items() if rounds}


def race_of_first_tokens():
    options.max_new_tokens = 2
    for model in options.models:
        middle = {who: {name: statistics.median(r[name] for r in rounds) for name in ("load", "first")}
                  for who, rounds in results_of(model).items()}
        for who, of in middle.items():
            ratio = "" if who == "transom" else f", ratio {of['first'] / middle['transom']['first']:.2f}"
            print(f"{Path(model).name:<28} {who:<12} loading {of['load']:.2f} s, first token {of['first']:.2f} s"
                  f"{ratio}", flush=True)


def race_of_rates():
    print(f"{'model':<28} {'who':<12} {'load s':>8} {'prefill tok/s':>14} {'decode tok/s':>13} {'ratio':>6} "
          f"{'of minima':>10}")
    for model in options.models:
        decode, least = {}, {}
        for who, rounds in results_of(model).items():
            times = {name: [x for r in rounds for x in r[name]] for name in ("prefill", "decode")}
            decode[who], least[who] = statistics.median(times["decode"]), min(times["decode"])
            load = statistics.median(r["load"] for r in rounds)
            read = options.batch_size * options.sequence_length / statistics.median(times["prefill"])
            ratios = "" if who == "transom" else (f" {decode[who] / decode['transom']:>6.2f} "
                                                  f"{least[who] / least['transom']:>10.2f}")
            print(f"{Path(model).name:<28} {who:<12} {load:>8.2f} {read:>14.1f} "
                  f"{options.batch_size / decode[who]:>13.1f}{ratios}", flush=True)


if options.peer == "ik_llama.cpp" or (options.peer and find_spec("llama_cpp")):
    peer(options.models[0])
elif options.peer:
    peer_by_server(options.models[0])
elif options.first_token:
    race_of_first_tokens()
else:
    race_of_rates()
