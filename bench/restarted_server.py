#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`transom serve` that is killed and started again under load, then ended by SIGTERM under load: what its clients see.

  restarted_server.py --transom build/release/bin/transom --model DIR [--clients 16 --kills 5 --seconds 3]

Clients ask a model that writes for texts, whole and as streams, one after the other. An answer counts as whole where its
JSON is complete, or its stream ends with [DONE]; it has to be the one that a lonely request gets. Where the server is
killed, a client may see a refused or a broken connection, and nothing else. At SIGTERM each request whose head and body
were sent before is to be answered whole. Exit status 1 where one of this is not so."""
import argparse
import collections
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time

BROKEN = (ConnectionError, http.client.IncompleteRead, http.client.RemoteDisconnected, http.client.BadStatusLine)


class Server:
    def __init__(self, options):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.command = [options.transom, "serve", f"model={options.model}", "--port", str(self.port), "--log", "none"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        sys.exit("the server does not become ready")


def body_of(i):
    return {"model": "model", "prompt": f"text number {i % 7}", "max_tokens": 24, "temperature": 0, "stream": i % 2 == 1}


def send(port, i):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body_of(i)), {"Content-Type": "application/json"})
    return connection


def answer(connection, i):
    """(status, text); raises what a broken connection raises."""
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        return response.status, json.loads(body)["error"]["message"]
    if i % 2 == 0:
        return 200, json.loads(body)["choices"][0]["text"]
    parts = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    if not parts or parts[-1] != "[DONE]":
        raise ConnectionError("a stream without its end")
    events = [json.loads(part) for part in parts[:-1]]
    if any("error" in event for event in events):
        raise ConnectionError("a stream that ends with an error")
    return 200, "".join(choice["text"] for event in events for choice in event["choices"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transom", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="between two kills")
    options = parser.parse_args()
    server = Server(options)
    expected = {i: answer(send(server.port, i), i)[1] for i in range(14)}
    seen, lock, over = collections.Counter(), threading.Lock(), threading.Event()

    def note(what):
        with lock:
            seen[what] += 1

    def client(number):
        i = number
        while not over.is_set():
            i += 1
            try:
                status, text = answer(send(server.port, i), i)
                if status == 200:
                    note("whole" if text == expected[i % 14] else "WRONG")
                else:
                    note(f"refused with {status}" if status == 503 else f"STATUS {status}")
            except BROKEN:
                note("broken connection")
                time.sleep(0.05)
            except Exception as error:  # whatever else a client would see
                note(f"OTHER {type(error).__name__}: {error}")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(options.clients)]
    for thread in threads:
        thread.start()
    for _ in range(options.kills):
        time.sleep(options.seconds)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.start()
    time.sleep(options.seconds)
    over.set()
    for thread in threads:
        thread.join()
    print(f"{options.kills} kills beside {options.clients} clients: {dict(seen)}")

    answered = collections.Counter()
    connections = [(i, send(server.port, i)) for i in range(64)]
    time.sleep(0.05)
    server.process.send_signal(signal.SIGTERM)
    for i, connection in connections:
        try:
            status, text = answer(connection, i)
            answered["whole" if status == 200 and text == expected[i % 14] else f"WRONG {status}"] += 1
        except BROKEN as error:
            answered[f"BROKEN {type(error).__name__}"] += 1
    code = server.process.wait(60)
    print(f"SIGTERM with {len(connections)} requests in work: {dict(answered)}, exit status {code}")
    bad = [what for what in [*seen, *answered] if what.split()[0] in ("WRONG", "OTHER", "STATUS", "BROKEN")]
    return 1 if bad or code or not seen["whole"] else 0


if __name__ == "__main__":
    sys.exit(main())
