# SPDX-License-Identifier: Apache-2.0
"""Structured output by a public measure: MaskBench, the schemas with valid and invalid instances of the repository
guidance-ai/jsonschemabench, by Transom, llguidance and xgrammar.

  mask_bench.py prepare maskbench/data tokenizer.model FOLDER [--sample 2000] [--seed 1]
  mask_bench.py run FOLDER --engine llguidance|xgrammar|xgrammar-open --output results.jsonl [--seconds 20]
  mask_bench.py table results.jsonl ...

`tokenizer.model` is a rank file of tiktoken's kind: that of Llama 3 with 128,000 tokens stands in the package
llama-models. `prepare` writes FOLDER/cases.jsonl (schemas with the tokens of their instances), vocabulary.txt (the bytes
of each token in hexadecimal digits) and tokenizer.json; build/release/bin/mask_bench FOLDER reads the first two, so that all
engines see the same tokens. The 10,163 schemas of MaskBench's own table are taken, not those that came later (BFCL, JME).
"""
import argparse
import base64
import json
import multiprocessing
import os
import random
import sys
import time

WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
NOT_IN_THE_TABLE = ("BFCL", "JME")
ENDS = 256  # special tokens behind the others; the second one ends a text


def pair_of(ranks, token):
    """The two tokens that a token is merged of."""
    parts = [bytes([b]) for b in token]
    own = ranks[token]
    while len(parts) > 2:
        best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], own))
        if ranks.get(parts[best] + parts[best + 1], own) >= own:
            return None
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return parts


def tokenizer_of(path):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    with open(path, "rb") as file:
        ranks = {base64.b64decode(word): int(rank) for word, rank in (line.split() for line in file if line.strip())}
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in printable}
    letters.update({b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in letters)})
    written = lambda token: "".join(letters[b] for b in token)
    pairs = [pair_of(ranks, token) for token in sorted(ranks, key=ranks.get) if len(token) > 1]
    merges = [tuple(map(written, pair)) for pair in pairs if pair]
    tokenizer = Tokenizer(models.BPE({written(t): r for t, r in ranks.items()}, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    special = [f"<|special_{i}|>" for i in range(ENDS)]
    special[1] = "<|end_of_text|>"
    tokenizer.add_special_tokens(special)
    return tokenizer, sorted(ranks, key=ranks.get)


def prepare(options):
    tokenizer, tokens = tokenizer_of(options.tokenizer)
    os.makedirs(options.folder, exist_ok=True)
    tokenizer.save(os.path.join(options.folder, "tokenizer.json"))
    with open(os.path.join(options.folder, "vocabulary.txt"), "w") as out:
        out.writelines(token.hex() + "\n" for token in tokens + [b""] * ENDS)
    names = sorted(name for name in os.listdir(options.data) if not name.startswith(NOT_IN_THE_TABLE))
    if options.sample and options.sample < len(names):
        names = sorted(random.Random(options.seed).sample(names, options.sample))
    with open(os.path.join(options.folder, "cases.jsonl"), "w") as out:
        for name in names:
            with open(os.path.join(options.data, name)) as file:
                case = json.load(file)
            tests = [{"valid": test["valid"],
                      "tokens": tokenizer.encode(json.dumps(test["data"], ensure_ascii=False),
                                                 add_special_tokens=False).ids} for test in case["tests"]]
            out.write(json.dumps({"id": name, "schema": case["schema"], "tests": tests}) + "\n")
    print(len(names), "schemas")


class Llguidance:
    def __init__(self, folder):
        import llguidance
        import llguidance.numpy
        self.library, self.arrays = llguidance, llguidance.numpy
        self.tokenizer = llguidance.LLTokenizer(os.path.join(folder, "tokenizer.json"))
        self.mask = self.arrays.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self, schema):
        self.first = self.library.LLMatcher(self.tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}))
        if self.first.is_error():
            raise ValueError(self.first.get_error())

    def begin(self):
        self.state = self.first.deep_copy()

    def fill(self):
        self.arrays.fill_next_token_bitmask(self.state, self.mask, 0)

    def allows(self, token):
        return bool(self.mask[0, token // 32] >> (token % 32) & 1)

    def accept(self, token):
        self.state.consume_token(token)


class Xgrammar:
    def __init__(self, folder, strict):
        import torch
        import xgrammar
        torch.set_num_threads(1)
        self.library, self.strict = xgrammar, strict
        with open(os.path.join(folder, "vocabulary.txt")) as file:
            tokens = [bytes.fromhex(line.strip()) for line in file]
        info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(tokens),
                                      stop_token_ids=[len(tokens) - ENDS + 1])
        self.mask = xgrammar.allocate_token_bitmask(1, len(tokens))
        self.words = self.mask.numpy()
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, schema):
        self.grammar = self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=not self.strict,
                                                         strict_mode=self.strict)

    def begin(self):
        self.state = self.library.GrammarMatcher(self.grammar)

    def fill(self):
        self.mask.fill_(-1)  # the matcher leaves it alone where every token may come
        self.state.fill_next_token_bitmask(self.mask)

    def allows(self, token):
        return bool(self.words[0, token // 32] >> (token % 32) & 1)

    def accept(self, token):
        self.state.accept_token(token)


def engine_of(name, folder):
    return Llguidance(folder) if name == "llguidance" else Xgrammar(folder, strict=name == "xgrammar")


def judge(engine, case, end):
    """One schema: what became of it, and its times in microseconds, of the thread's own time as in mask_bench.cpp."""
    result = {"id": case["id"], "state": "right", "masks_us": []}
    begin = time.thread_time()
    try:
        engine.compile(case["schema"])
        engine.begin()
        engine.fill()
    except Exception as error:  # whatever a library throws
        return {**result, "state": "refused", "why": str(error)[:300]}
    result["first_us"] = 1e6 * (time.thread_time() - begin)
    for number, test in enumerate(case["tests"]):
        accepted = True
        try:
            engine.begin()
            for token in test["tokens"]:
                begin = time.thread_time()
                engine.fill()
                filled = time.thread_time()
                accepted = engine.allows(token)
                if not accepted:
                    break
                chosen = time.thread_time()
                engine.accept(token)
                result["masks_us"].append(1e6 * (time.thread_time() - chosen + filled - begin))
            if accepted:
                engine.fill()
                accepted = engine.allows(end)
        except Exception as error:
            return {**result, "state": "failed", "why": f"test {number}: {error}"[:300]}
        if accepted != test["valid"]:
            if result["state"] != "accepts_invalid":
                result["state"] = "accepts_invalid" if accepted else "rejects_valid"
                result["why"] = f"test {number}"
    return result


def worker(connection, name, folder, end):
    engine = engine_of(name, folder)
    connection.send("ready")
    while True:
        connection.send(judge(engine, connection.recv(), end))


def run(options):
    """A process of its own, which is ended where a schema takes too long, and begun anew where it has crashed."""
    with open(os.path.join(options.folder, "vocabulary.txt")) as file:
        end = sum(1 for _ in file) - ENDS + 1
    process = None
    with open(os.path.join(options.folder, "cases.jsonl")) as cases, open(options.output, "w") as out:
        for line in cases:
            case = json.loads(line)
            if process is None:
                here, there = multiprocessing.Pipe()
                process = multiprocessing.Process(target=worker, args=(there, options.engine, options.folder, end))
                process.start()
                there.close()
                here.recv()
            here.send(case)
            try:
                found = here.recv() if here.poll(options.seconds) else {"id": case["id"], "state": "timeout"}
            except EOFError:
                found = {"id": case["id"], "state": "crashed"}
            if found["state"] in ("timeout", "crashed"):
                process.kill()
                process.join()
                process = None
            out.write(json.dumps(found) + "\n")
    if process:
        process.kill()


STATES = ["right", "refused", "rejects_valid", "accepts_invalid", "timeout", "crashed", "failed"]


def table(options):
    print("| engine | " + " | ".join(s.replace("_", " ") for s in STATES) +
          " | mask p50 | p99 | p99.9 | most | first p50 | p99 |")
    print("| --- |" + " ---: |" * (len(STATES) + 6))
    for path in options.results:
        with open(path) as file:
            rows = [json.loads(line) for line in file]
        masks = sorted(us for row in rows for us in row.get("masks_us", []))
        first = sorted(row["first_us"] for row in rows if "first_us" in row)
        at = lambda times, share: times[min(len(times) - 1, int(share * len(times)))] if times else 0
        counts = [sum(row["state"] == state for row in rows) for state in STATES]
        times = [f"{at(masks, s):.0f} us" for s in (0.5, 0.99, 0.999, 1)]
        firsts = [f"{at(first, s) / 1000:.1f} ms" for s in (0.5, 0.99)]
        name = os.path.basename(path).removesuffix(".jsonl")
        print("| " + " | ".join([name, *map(str, counts), *times, *firsts]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare")
    for name in ("data", "tokenizer", "folder"):
        first.add_argument(name)
    first.add_argument("--sample", type=int, default=0)
    first.add_argument("--seed", type=int, default=1)
    second = commands.add_parser("run")
    second.add_argument("folder")
    second.add_argument("--engine", choices=["llguidance", "xgrammar", "xgrammar-open"], required=True)
    second.add_argument("--output", required=True)
    second.add_argument("--seconds", type=float, default=20)
    third = commands.add_parser("table")
    third.add_argument("results", nargs="+")
    options = parser.parse_args()
    {"prepare": prepare, "run": run, "table": table}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
