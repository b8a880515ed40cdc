#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`transom serve` and llama.cpp's server on the same GGUF file, asked by `transom bench serve`, in turns.

  serve_race.py FOLDER --transom build/release/bin/transom --text TEXT [--models llama-160m --types q4_0 bf16 \
    --clients 1 8 32 --input_len 64 --output_len 64 --prompts_each 4 --rounds 2 --threads 2 --isa avx2 \
    --step_milliseconds 30 0]

Models with random weights and a tokenizer that is trained on the file TEXT are made in FOLDER, once; or --files names
some, as random_gguf.py writes them. Every text ends at
`--output_len`. A round starts each server, warms it up, and asks it with each number of clients; shown are medians over
the rounds: tokens a second of prompts and answers together and of answers, time to the first token, p95 of the time
between tokens. With several `--step_milliseconds` a round has a server of Transom for each. llama.cpp's server comes by
xllamacpp, which has it compiled (for AVX2: `--isa avx2` holds Transom to the same), or runs already at `--url`, as a
native build of it does. A model in bf16 is computed in bf16 by both.

With `--pictures SIDE` requests are chats with a picture of that many pixels a side, the model is of SmolVLM-256M's shape
(`picture_chats.py`), and llama.cpp sees by mtmd: each of `--types` is a type of its files, beside Transom in bf16 and,
of 8 bits, with `--quantization int8`. That both find the same first words likely is checked before.

    pip install xllamacpp tokenizers transformers torch gguf pillow"""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

SHAPES = {"llama-160m": (768, 3072, 12, 12, 12), "llama-1b": (2048, 5632, 22, 32, 4)}
VOCABULARY = 32000
PEER = "llama.cpp"


def make_tokenizer(text, folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train([text], trainers.BpeTrainer(vocab_size=VOCABULARY - 2, special_tokens=["<s>", "</s>"],
                                           initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.add_tokens([f"<unused{i}>" for i in range(VOCABULARY - made.get_vocab_size())])
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>").save_pretrained(folder)


def make(name, kind, options):
    file = options.folder / f"{name}-{kind}.gguf"
    if file.exists():
        return file
    source = options.folder / name
    if not source.exists():
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        width, inner, layers, heads, key_heads = SHAPES[name]
        torch.manual_seed(0)
        config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                             num_attention_heads=heads, num_key_value_heads=key_heads, max_position_embeddings=2048,
                             bos_token_id=0, eos_token_id=1)
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(source)
        make_tokenizer(options.text, source)
    subprocess.run([options.transom, "quantize", source, file, "--format", "gguf", "--type", kind], check=True,
                   stdout=subprocess.DEVNULL)
    return file


def peer(file, port, clients, length, threads, tower):
    import xllamacpp

    wanted = xllamacpp.CommonParams()
    wanted.model.path, wanted.port, wanted.hostnames = str(file), port, ["127.0.0.1"]
    wanted.n_parallel, wanted.n_ctx, wanted.kv_unified = clients, length * clients, True
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    wanted.verbosity = -1
    if tower:
        wanted.mmproj.path, wanted.warmup = tower, True
    server = xllamacpp.Server(wanted)
    print(server.listening_address, flush=True)
    threading.Event().wait()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(url, process):
    for _ in range(1200):
        if process and process.poll() is not None:
            sys.exit(f"{url}: the server ended")
        try:
            if urllib.request.urlopen(url + "/health", timeout=2).status == 200:
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url}: no answer for two minutes")


def start(who, file, options, milliseconds=None, tower=None, arguments=()):
    """`tower`: llama.cpp's file of what sees; `arguments`: of Transom for a checkpoint, instead of those for a file."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "TRANSOM_NUM_THREADS": str(options.threads)}
    if options.isa:
        environment["TRANSOM_CPU_ISA"] = options.isa
    port, most = free_port(), max(options.clients)
    if who != PEER:
        command = [options.transom, "serve", f"model={file}", "--port", str(port), "--log", "none", "--max_sequences",
                   str(most)]
        # As llama.cpp, which rounds what it multiplies with a weight to the weight's type, and whose cache is of f16.
        if arguments:
            command += arguments
        elif file.name.endswith("-bf16.gguf"):
            command += ["--dtype", "bfloat16"]
        else:
            command += ["--kv_cache_dtype", "float16"]
        if milliseconds is not None:
            command += ["--step_milliseconds", str(milliseconds)]
    else:
        length = -(-(options.input_len + options.output_len + 16 + rows_of_picture(options.pictures)) // 64) * 64
        command = [sys.executable, __file__, options.folder, "--transom", options.transom, "--text", "-", "--peer", file,
                   "--peer_port", str(port), "--peer_length", str(length), "--clients", str(most), "--threads",
                   str(options.threads)] + (["--peer_tower", tower] if tower else [])
    log = tempfile.TemporaryFile()
    process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, env=environment)
    url = f"http://127.0.0.1:{port}"
    wait_for(url, process)
    return process, url


def ask(url, clients, options):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "load.json"
        done = subprocess.run(
            [options.transom, "bench", "serve", "--base_url", url, "--num_prompts", str(clients * options.prompts_each),
             "--max_concurrency", str(clients), "--input_len", str(options.input_len), "--output_len",
             str(options.output_len), "--ignore_eos", "--extra_body", '{"temperature": 0}', "--num_warmups", "2",
             "--metric_percentiles", "50,95,99", "--seed", str(clients), "--json", str(report)],
            capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"transom bench serve: {done.stderr[-600:]}")
        found = json.loads(report.read_text())
        if found["failed"]:
            sys.exit(f"{url}: {found['failed']} of {found['num_prompts']} requests failed")
        return {"total": found["total_token_throughput"], "written": found["output_throughput"],
                "ttft": found["median_ttft_ms"], "itl": found["p95_itl_ms"]}


def rows_of_picture(side):
    """Most rows of a prompt that a picture takes: 64 and the marks of each tile of 512, and of the whole."""
    return 68 * (-(-side // 512) ** 2 + 1) + 64 if side else 0


def check_likely(words, kind, limit=0.1):
    """The likeliest first words of both, in the logarithms of their probabilities."""
    (_, ours), (_, theirs) = words.items()
    shared = [word for word in ours if word in theirs]
    apart = max((abs(ours[word] - theirs[word]) for word in shared), default=float("inf"))
    print(f"{kind}: {len(shared)} of {len(ours)} likeliest first words are the same, {apart:.1e} apart", file=sys.stderr)
    if max(ours, key=ours.get) != max(theirs, key=theirs.get) or len(shared) < 3 or apart > limit:
        sys.exit(f"{kind}: the servers do not answer the same: {words}")


def race_pictures(options):
    from picture_chats import likely, load, make

    side, sides = options.pictures, ("transom", PEER)
    print("| type | clients | who | pictures/s | ratio | TTFT ms | ratio | of minima | prompt |\n"
          "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in options.types:
        model, words, tower = make(options.folder, options.text, side, kind, options.transom)
        ours = {"bf16": ["--dtype", "bfloat16"], "f32": ["--dtype", "float32"]}.get(kind, ["--quantization", "int8"])
        found, first = {}, {}
        for turn in range(options.rounds):
            for who in sides:
                running, url = start(who, words if who == PEER else model, options, None, tower, ours)
                try:
                    first[who] = likely(url, side)  # warms up, too
                    for clients in options.clients:
                        made = load(url, clients, options.prompts_each, side, options.output_len, 100 * turn)
                        found.setdefault((clients, who), []).append(made)
                finally:
                    running.send_signal(signal.SIGKILL)
                    running.wait()
            check_likely(first, kind, 0.02 if kind == "f32" else 0.5)
        for clients in options.clients:
            theirs = found[clients, PEER]
            for who in sides:
                mine = found[clients, who]
                of = lambda rows, key, what=statistics.median: what(row[key] for row in rows)  # noqa: E731
                ratios = (of(mine, "pictures") / of(theirs, "pictures"), of(theirs, "ttft") / of(mine, "ttft"),
                          of(theirs, "ttft", min) / of(mine, "ttft", min))
                shown = [f"{ratio:.2f}" if who != PEER else "" for ratio in ratios]
                print(f"| {kind} | {clients} | {who} | {of(mine, 'pictures'):.2f} | {shown[0]} | {of(mine, 'ttft'):.0f} | "
                      f"{shown[1]} | {shown[2]} | {mine[0]['prompt']} |", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # through `finally`, which ends the servers
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--transom", required=True)
    parser.add_argument("--text", help="what the tokenizer of models that are made is trained on")
    parser.add_argument("--files", nargs="+", type=Path, default=[], help="GGUF files in place of models that are made")
    parser.add_argument("--models", nargs="+", default=["llama-160m"], choices=list(SHAPES))
    parser.add_argument("--types", nargs="+", default=["q4_0", "bf16"])
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--input_len", type=int, default=64)
    parser.add_argument("--output_len", type=int, default=64)
    parser.add_argument("--prompts_each", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", help="what Transom may use of the processor (TRANSOM_CPU_ISA)")
    parser.add_argument("--step_milliseconds", nargs="+", type=float, default=[None],
                        help="`--step_milliseconds` of Transom's server; its default without")
    parser.add_argument("--pictures", type=int, default=0, metavar="SIDE",
                        help="chats with a picture of so many pixels a side, instead of texts; --types bf16, f32, q8_0")
    parser.add_argument("--url", help="where llama.cpp's server runs already, with the one model that is raced")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--peer_port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--peer_length", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--peer_tower", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return peer(options.peer, options.peer_port, options.clients[0], options.peer_length, options.threads,
                    options.peer_tower)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.pictures:
        return race_pictures(options)
    sides = {"transom" if each is None else f"transom, {each:g} ms": each for each in options.step_milliseconds}
    sides[PEER] = None
    print("| model | clients | who | tokens/s | written/s | ratio | TTFT ms | ITL p95 ms |\n"
          "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    if not options.files and not options.text:
        parser.error("--text: expected a file to train a tokenizer on, or --files")
    files = options.files or [make(name, kind, options) for name in options.models for kind in options.types]
    for file in files:
        found = {}
        for _ in range(options.rounds):
            for who, milliseconds in sides.items():
                beside = who == PEER and options.url
                running, url = (None, options.url) if beside else start(who, file, options, milliseconds)
                try:
                    for clients in options.clients:
                        found.setdefault((clients, who), []).append(ask(url, clients, options))
                finally:
                    if running:
                        running.send_signal(signal.SIGKILL)
                        running.wait()
        for clients in options.clients:
            middle = {who: {key: statistics.median(each[key] for each in found[clients, who])
                            for key in found[clients, who][0]} for who in sides}
            for who, figures in middle.items():
                ratio = figures["total"] / middle[PEER]["total"]
                print(f"| {file.stem} | {clients} | {who} | {figures['total']:.1f} | {figures['written']:.1f} | "
                      f"{'' if who == PEER else f'{ratio:.2f}'} | {figures['ttft']:.0f} | {figures['itl']:.1f} |",
                      flush=True)


if __name__ == "__main__":
    sys.exit(main())
