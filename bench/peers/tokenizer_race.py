#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races Transom's tokenizer against Hugging Face's Rust library on the same tokenizer.json and texts.

Both are warm and take turns. Prints medians in milliseconds, the ratio peer/transom (above 1, Transom is faster), and
refuses to compare what does not give the same number of tokens.

  bench/peers/tokenizer_race.py --speed build/release/bin/tokenizer_speed --data DIR --bert DIR --folder WORK

DATA holds tinyshakespeare/input.txt and sst2/train.tsv; BERT a tokenizer.json with BERT's vocabulary (all-MiniLM-L6-v2).
The vocabularies of the other two are trained on the texts, by the peer; WORK keeps them.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

THREADS = "2"
os.environ.update(RAYON_NUM_THREADS=THREADS, TOKENIZERS_PARALLELISM="true", TRANSOM_NUM_THREADS=THREADS)

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402


def texts_of(data):
    """Paragraphs of Shakespeare and sentences of SST-2, and all of Shakespeare as one text."""
    play = (data / "tinyshakespeare/input.txt").read_text()
    rows = [line.split("\t") for line in (data / "sst2/train.tsv").read_text().splitlines()]
    return [part for part in play.split("\n\n") if part.strip()] + [max(row, key=len) for row in rows], [play]


def trained(kind, texts):
    """A tokenizer of GPT-2's or of T5's kind."""
    if kind == "byte-level BPE":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=20000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                      show_progress=False)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=8000, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


class Transom:
    """tokenizer_speed, which answers on its standard output."""

    def __init__(self, program, folder, texts):
        self.process = subprocess.Popen([program, folder, texts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{program} does not start")

    def run(self, mode):
        print(mode, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        return answer["seconds"], answer["tokens"]


class Peer:
    def __init__(self, folder, texts):
        self.tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.texts = texts

    def run(self, mode):
        start = time.perf_counter()
        if mode == "batch":
            encodings = self.tokenizer.encode_batch(self.texts)
        else:
            encodings = [self.tokenizer.encode(text) for text in self.texts]
        return time.perf_counter() - start, sum(len(encoding) for encoding in encodings)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("speed", "data", "folder"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--bert")
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    many, one = texts_of(pathlib.Path(arguments.data))
    folders = {"WordPiece, 30,522": arguments.bert} if arguments.bert else {}
    for kind in ("byte-level BPE", "Unigram"):
        folder = pathlib.Path(arguments.folder, kind.replace(" ", "-"))
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "tokenizer.json").exists():
            trained(kind, many).save(str(folder / "tokenizer.json"))
        size = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
        folders[f"{kind}, {size:,}"] = str(folder)
    print("| vocabulary | texts | transom | tokenizers | ratio |\n| --- | --- | ---: | ---: | ---: |")
    for name, folder in folders.items():
        for texts, modes in ((many, ("single", "batch")), (one, ("single",))):
            path = pathlib.Path(arguments.folder, f"texts-{len(texts)}.json")
            path.write_text(json.dumps(texts))
            contenders = Transom(arguments.speed, folder, str(path)), Peer(folder, texts)
            for mode in modes:
                seconds = [], []
                for turn in range(arguments.turns + 1):
                    runs = [contender.run(mode) for contender in contenders]
                    if runs[0][1] != runs[1][1]:
                        sys.exit(f"{name}: {runs[0][1]} tokens, the peer makes {runs[1][1]}")
                    for times, (spent, _) in zip(seconds, runs):
                        if turn > 0:  # the first warms the caches
                            times.append(spent * 1000)
                ours, theirs = map(statistics.median, seconds)
                what = f"{len(texts):,}, {'one by one' if mode == 'single' else 'as a batch'}" if len(texts) > 1 else \
                    f"one of {len(texts[0]) / 1e6:.1f} MB"
                print(f"| {name} | {what} | {ours:.1f} ms | {theirs:.1f} ms | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
