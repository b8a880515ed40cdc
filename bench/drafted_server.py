#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of a server with drafts and without, on texts that repeat themselves and on texts that do not.

  drafted_server.py --transom build/release/bin/transom --model DIR [--clients 1 8] [--tokens 128 --rounds 3]
      [--config '{"method": "suffix"}' ...] [--limit 0.95]

Starts a server without drafts and one for each `--config`, and gives them the same requests in turns, so that all see
the same machine. Kinds of texts:

  repetitive  the prompt is a sentence several times over, and a logit bias makes the answer go on with its words
  again       the same sampled answer for every client of a round: those that come later find it in earlier ones
  random      prompts and answers of drawn tokens (temperature 1.5), which nothing predicts

Prints medians over the rounds, how many tokens of drafts were accepted, and the ratio to the server without. Exit
status 1 where an answer differs from that without drafts, or a ratio is below `--limit`."""
import argparse
import concurrent.futures
import json
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

DRAFTED, ACCEPTED = "vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"


class Server:
    def __init__(self, transom, model, config, more):
        flags = ["--speculative_config", config] if config else []
        self.process = subprocess.Popen([transom, "serve", f"model={model}", "--port", "0", *flags, *more],
                                        stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            if found := re.search(r"http://[^\s/]+:\d+", line):
                self.url = found.group(0)
                break
        if not self.url:
            sys.exit(f"the server did not start ({' '.join(flags)})")
        # What it says later must not fill the pipe.
        self.reader = concurrent.futures.ThreadPoolExecutor(1)
        self.reader.submit(self.process.stderr.read)

    def answer(self, body):
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            found = json.load(reply)
        return found["choices"][0]["text"], found["usage"]["completion_tokens"]

    def counted(self, name):
        with urllib.request.urlopen(self.url + "/metrics") as reply:
            text = reply.read().decode()
        return sum(float(each) for each in re.findall(rf"^{re.escape(name)}\{{[^}}]*\}} (\S+)$", text, re.M))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.reader.shutdown()


def bodies(kind, clients, tokens, turn):
    common = {"model": "model", "max_tokens": tokens, "ignore_eos": True}
    for client in range(clients):
        seed = 1000 * turn + client
        ids = [3 + (seed * 7919 + i * i * 31 + i * 17) % 200 for i in range(24)]
        if kind == "repetitive":
            circle = ids[:6]
            yield common | {"prompt": circle * 6, "temperature": 0, "logit_bias": {str(each): 8 for each in circle}}
        elif kind == "again":
            yield common | {"prompt": [3 + (i * i * 31) % 200 for i in range(24)], "temperature": 1, "seed": 7}
        else:
            yield common | {"prompt": ids, "temperature": 1.5, "seed": seed}


def measured(server, requests):
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
        answers = list(threads.map(server.answer, requests))
    seconds = time.perf_counter() - start
    return [text for text, _ in answers], sum(count for _, count in answers) / seconds


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # through `finally`, which ends the servers
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transom", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--config", nargs="*", default=['{"method": "suffix"}', '{"method": "ngram"}'])
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=0.95)
    parser.add_argument("more", nargs="*", help="further flags of transom serve, behind --")
    options = parser.parse_args()
    servers = {name or "none": Server(options.transom, options.model, name, options.more)
               for name in ["", *options.config]}
    failed = False
    try:
        print(f"{'texts':<12}{'clients':>8}  {'drafts':<44}{'tokens/s':>10}{'ratio':>8}{'accepted':>10}")
        for kind in ("repetitive", "again", "random"):
            for clients in options.clients:
                speeds = {name: [] for name in servers}
                before = {name: (server.counted(DRAFTED), server.counted(ACCEPTED)) for name, server in servers.items()}
                for turn in range(options.rounds + 1):  # the first warms up
                    requests = list(bodies(kind, clients, options.tokens, turn))
                    expected = None
                    for name, server in servers.items():
                        texts, speed = measured(server, requests)
                        expected = expected or texts
                        if texts != expected:
                            print(f"{kind}: answers with {name} differ from those without drafts")
                            failed = True
                        if turn:
                            speeds[name].append(speed)
                plain = statistics.median(speeds["none"])
                for name, server in servers.items():
                    speed = statistics.median(speeds[name])
                    drafted = server.counted(DRAFTED) - before[name][0]
                    accepted = server.counted(ACCEPTED) - before[name][1]
                    share = f"{accepted / drafted:.0%}" if drafted else "-"
                    print(f"{kind:<12}{clients:>8}  {name:<44}{speed:>10.1f}{speed / plain:>8.2f}{share:>10}")
                    failed |= speed / plain < options.limit
    finally:
        for server in servers.values():
            server.end()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
