#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeddings over HTTP: `transom serve` and sentence-transformers behind FastAPI and uvicorn, on one model, in turns.

  serve_embeddings.py FOLDER --transom build/release/bin/transom --text TEXT [--model DIR --count 1000 --turns 3]

Asks both for the same sentences of 3 to 120 words, drawn from the file TEXT: in one request with all of them, twice, then
one by one from 16 connections. Without --model a model of MiniLM's shape with random weights is made in FOLDER. Shown are
medians over the turns; the exit status is 1 where the vectors differ.

    pip install sentence-transformers fastapi uvicorn"""
import argparse
import concurrent.futures
import http.client
import json
import math
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path


def make(folder, text):
    """A folder that sentence-transformers has saved."""
    made = folder / "minilm"
    if made.exists():
        return made
    import torch
    from sentence_transformers import SentenceTransformer, models
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = BertWordPieceTokenizer(lowercase=True)
    words.train([text], vocab_size=12000, show_progress=False)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                        intermediate_size=1536, max_position_embeddings=512)
    plain = folder / "minilm-plain"
    BertModel(config).save_pretrained(plain)
    BertTokenizerFast(tokenizer_object=words._tokenizer, model_max_length=256).save_pretrained(plain)
    reads = models.Transformer(str(plain), max_seq_length=256)
    SentenceTransformer(modules=[reads, models.Pooling(384), models.Normalize()], device="cpu").save(str(made))
    return made


def peer(model, port):
    import uvicorn
    from fastapi import FastAPI, Request
    from sentence_transformers import SentenceTransformer

    encoder, app = SentenceTransformer(model, device="cpu"), FastAPI()

    @app.get("/health")
    def health():
        return {}

    @app.post("/v1/embeddings")
    async def embed(request: Request):
        texts = (await request.json())["input"]
        vectors = encoder.encode(texts if isinstance(texts, list) else [texts], batch_size=32)
        return {"data": [{"index": i, "embedding": vector.tolist()} for i, vector in enumerate(vectors)]}

    uvicorn.run(app, port=port, log_level="error")


def ask(connection, texts):
    connection.request("POST", "/v1/embeddings", json.dumps({"input": texts, "model": "model"}),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    body = json.loads(answer.read())
    if answer.status != 200:
        sys.exit(f"{answer.status}: {body}")
    return [each["embedding"] for each in body["data"]]


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=300)


def one_by_one(port, sentences, clients):
    def some(number):
        connection = connect(port)
        for sentence in sentences[number::clients]:
            ask(connection, [sentence])

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(some, range(clients)))


def start(who, model, options):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = ([options.transom, "serve", f"model={model}", "--port", str(port), "--log", "none"] if who == "transom" else
               [sys.executable, __file__, str(options.folder), "--transom", "-", "--text", "-", "--model", str(model),
                "--peer_port", str(port)])
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        try:
            connection = connect(port)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return process, port
        except OSError:
            pass
        if process.poll() is not None:
            sys.exit(f"{who}: the server ended")
        time.sleep(0.1)
    sys.exit(f"{who}: no answer for two minutes")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # through `finally`, which ends the servers
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--transom", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--peer_port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer_port:
        return peer(options.model, options.peer_port)
    options.folder.mkdir(parents=True, exist_ok=True)
    model = options.model or make(options.folder, options.text)
    words, draw = Path(options.text).read_text(encoding="utf-8").split(), random.Random(0)
    sentences = []
    for _ in range(options.count):
        length = min(120, 3 + int(draw.expovariate(1 / 20)))
        begin = draw.randrange(len(words) - length)
        sentences.append(" ".join(words[begin:begin + length]))
    found, vectors = {}, {}
    for _ in range(options.turns):
        for who in ("transom", "sentence-transformers"):
            process, port = start(who, model, options)
            try:
                ask(connect(port), sentences[:64])  # warms up
                times = [time.monotonic()]
                for _ in range(2):
                    vectors[who] = ask(connect(port), sentences)
                    times.append(time.monotonic())
                one_by_one(port, sentences, options.clients)
                times.append(time.monotonic())
                found.setdefault(who, []).append([b - a for a, b in zip(times, times[1:])])
            finally:
                process.kill()
                process.wait()
    middle = {who: [statistics.median(times) for times in zip(*turns)] for who, turns in found.items()}
    for i, what in enumerate(("one request", "the same again", f"one by one, {options.clients} connections")):
        ours, theirs = middle["transom"][i], middle["sentence-transformers"][i]
        print(f"{options.count} sentences, {what}: {ours:.2f} s, sentence-transformers {theirs:.2f} s, ratio "
              f"{theirs / ours:.2f}")
    worst = min(sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
                for a, b in zip(*vectors.values()))
    print(f"least cosine of both vectors: {worst:.6f}")
    return 1 if worst < 0.9999 else 0


if __name__ == "__main__":
    sys.exit(main())
