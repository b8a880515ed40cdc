#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients that mean harm, or are broken, do to the others: p50 and p99 of short requests alone and in company.

  crowded_server.py --transom build/release/bin/transom --model DIR [--seconds 10 --rounds 5 --connections 10000]
      [--only idle slow half bodies large] [--limit 1.1]

Starts `transom serve`, asks it for embeddings (or, of a model that writes, for 8 tokens) from a few connections at a
steady rate, for some seconds without and with company in turns, and prints the medians over the turns and their ratio, the server's memory, and how many files it holds open in company.
Company:

  idle     connections that never say a word (`--connections`)
  slow     a tenth as many that send a byte of a head a second
  half     connections that send a request, close their sending side, and read nothing
  bodies   bodies of 64 MB that announce their length, one connection after the other
  large    bodies of 7 MB that the server takes and then refuses, at the pace of `--pace` MB a second

Company comes before the measurement begins, and runs in a process of its own that computes only where nobody else wants
a core, since its own work would be another machine's. Exit status 1 where a ratio of p99 is above `--limit`."""
import argparse
import asyncio
import json
import multiprocessing
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

WORDS = "a kettle that leaks is of little use to those who want tea".split()


def body_of(writes, i):
    text = " ".join(WORDS[(i + k) % len(WORDS)] for k in range(6 + i % 5))
    if writes:
        return "/v1/completions", {"prompt": text, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    return "/v1/embeddings", {"input": text}


def request_of(writes, i):
    path, body = body_of(writes, i)
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


async def answer(reader):
    status = int((await reader.readline()).split()[1])
    length = 0
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    await reader.readexactly(length)
    return status


# ---- company, each until it is cancelled


async def hold(port, count, first, each, ready):
    """`count` connections that begin with `first` and then do `each(reader, writer)`; who is closed comes again."""
    gate, there = asyncio.Semaphore(200), set()

    async def one(number):
        while True:
            try:
                async with gate:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    if first:
                        writer.write(first)
                there.add(number)
                if len(there) == count:
                    ready()
                await each(reader, writer)
                writer.close()
            except OSError:
                pass
            await asyncio.sleep(1)

    await asyncio.gather(*[one(number) for number in range(count)])


async def wait_for_end(reader, writer):
    while await reader.read(65536):
        pass


async def drip(reader, writer):
    while not reader.at_eof():
        await asyncio.sleep(1)
        writer.write(b"x")
        await writer.drain()


async def half_close(reader, writer):
    writer.write_eof()
    await asyncio.sleep(60)


async def send_bodies(port, size, pace, writes, ready):
    """One after the other; `pace` in bytes a second."""
    ready()
    head = (f"POST {body_of(writes, 0)[0]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {size}\r\n\r\n").encode()
    part = b'{"input": "' + b"x" * (256 << 10)
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head)
            for _ in range(size // len(part)):
                begin = time.monotonic()
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(max(0.0, len(part) / pace - (time.monotonic() - begin)))
            writer.write(b"x" * (size % len(part)))
            await asyncio.wait_for(reader.read(100), 5)
            writer.close()
        except (OSError, asyncio.TimeoutError):
            await asyncio.sleep(0.05)


def company(kind, port, writes, options, ready):
    raise_limit()
    pace, few = options.pace * 1e6, options.connections // 10

    def all_there():
        # Even a process of the lowest niceness keeps a core for some milliseconds once it has it; an idle one gives way.
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        ready.set()

    work = {
        "idle": lambda: hold(port, options.connections, b"", wait_for_end, all_there),
        "slow": lambda: hold(port, few, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", drip, all_there),
        "half": lambda: hold(port, few, request_of(writes, 0), half_close, all_there),
        "bodies": lambda: send_bodies(port, 64 << 20, 1e12, writes, all_there),
        "large": lambda: send_bodies(port, 7 << 20, pace, writes, all_there),
    }[kind]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(work())


# ---- what is measured


async def measure(port, writes, options):
    """Seconds of each request: `--clients` connections, each at its share of `--rate` whatever the server does."""
    seconds, wrong = [], []
    end = time.monotonic() + options.seconds

    async def client(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        step, i = options.clients / options.rate, 0
        due = time.monotonic() + step * number / options.clients
        while due < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            begin = time.monotonic()
            writer.write(request_of(writes, number + i))
            status = await asyncio.wait_for(answer(reader), 60)
            seconds.append(time.monotonic() - begin)
            if status != 200:
                wrong.append(status)
            due, i = due + step, i + 1
        writer.close()

    await asyncio.gather(*[client(number) for number in range(options.clients)])
    if wrong:
        sys.exit(f"{len(wrong)} of {len(seconds)} requests were refused, the first with {wrong[0]}")
    return sorted(seconds)


def at(times, share):
    return times[min(len(times) - 1, int(share * len(times)))]


def raise_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def start(options):
    server = subprocess.Popen([options.transom, "serve", options.model, "--port", "0", "--log", "none",
                               "--max_connections", str(options.connections + 1000)], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"serving .* on \w+://.*:(\d+)", line):
            # What it says later is read, so that it never waits for a reader.
            threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()
            return server, int(found.group(1))
    sys.exit("the server did not start")


def resident(process):
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("VmRSS"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transom", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=40, help="requests a second")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--pace", type=float, default=20, help="MB a second of `large`")
    parser.add_argument("--only", nargs="+", default=["idle", "slow", "half", "bodies", "large"])
    parser.add_argument("--limit", type=float, default=1.1)
    options = parser.parse_args()
    raise_limit()
    server, port = start(options)
    failed = False
    try:
        listed = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models"))["data"][0]
        probe = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", b'{"prompt": "a", "max_tokens": 1}',
                                       {"Content-Type": "application/json"})
        try:
            writes = urllib.request.urlopen(probe).status == 200
        except urllib.error.HTTPError:
            writes = False
        print(f"{listed['id']}: {'8 tokens' if writes else 'an embedding'} at {options.rate:g} requests a second, medians "
              f"of {options.rounds} turns of {options.seconds:g} s")
        print(f"{'company':<8} {'p50 ms':>8} {'beside':>8} {'p99 ms':>8} {'beside':>8} {'ratio':>6} {'MB':>7} {'beside':>7} "
              f"{'files':>6}")
        asyncio.run(measure(port, writes, options))  # warms up
        for kind in options.only:
            alone, beside, memory = [], [], [resident(server), 0.0]
            for _ in range(options.rounds):
                alone.append(asyncio.run(measure(port, writes, options)))
                ready = multiprocessing.Event()
                other = multiprocessing.Process(target=company, args=(kind, port, writes, options, ready))
                other.start()
                if not ready.wait(120):
                    sys.exit(f"{kind}: company was not all there within two minutes")
                time.sleep(1)
                beside.append(asyncio.run(measure(port, writes, options)))
                memory[1] = max(memory[1], resident(server))
                held = len(os.listdir(f"/proc/{server.pid}/fd"))
                other.terminate()
                other.join()
                time.sleep(1)
            found = [[1e3 * statistics.median(at(times, share) for times in turns) for turns in (alone, beside)]
                     for share in (0.5, 0.99)]
            ratio = statistics.median(at(b, 0.99) / at(a, 0.99) for a, b in zip(alone, beside))
            failed |= ratio > options.limit
            print(f"{kind:<8} {found[0][0]:>8.2f} {found[0][1]:>8.2f} {found[1][0]:>8.2f} {found[1][1]:>8.2f} "
                  f"{ratio:>6.2f} {memory[0]:>7.0f} {memory[1]:>7.0f} {held:>6}", flush=True)
    finally:
        server.terminate()
        server.wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
