#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the start of `transom serve MODEL` to its first answer: one token of a model that writes, else an embedding.

  first_answer.py --transom build/release/bin/transom MODEL [MODEL ...] [--turns 5]

The client tries to connect every millisecond and asks at once. Shown are the median and the least over the turns, the
first turn left out, which brings the files into memory."""
import argparse
import json
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def ask(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        return urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def seconds(transom, model, writes):
    """None where the model does not do it."""
    port = free_port()
    begin = time.monotonic()
    server = subprocess.Popen([transom, "serve", f"model={model}", "--port", str(port), "--log", "none"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path, body = (("/v1/completions", {"prompt": "a b c", "max_tokens": 1, "temperature": 0}) if writes else
                  ("/v1/embeddings", {"input": "a kettle that leaks"}))
    try:
        while True:
            status = ask(port, path, body)
            if status == 200:
                return time.monotonic() - begin
            if status not in (0, 503):
                return None
            if server.poll() is not None:
                sys.exit(f"{model}: the server ended")
            time.sleep(0.001)
    finally:
        server.kill()
        server.wait()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # through `finally`, which ends the servers
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--transom", required=True)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    for model in options.models:
        writes = seconds(options.transom, model, True) is not None
        times = [seconds(options.transom, model, writes) for _ in range(options.turns + 1)][1:]
        print(f"{model}: {'a token' if writes else 'an embedding'} after {statistics.median(times):.3f} s "
              f"(least {min(times):.3f}, {options.turns} turns)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
