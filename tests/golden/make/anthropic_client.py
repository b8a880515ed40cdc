#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what Anthropic's official client sends: tests/golden/clients/anthropic.jsonl, a request a line.

  pip install anthropic==2.14.0
  python3 tests/golden/make/anthropic_client.py
  python3 tests/golden/make/anthropic_client.py --base_url http://localhost:8000 --model NAME    # asks a server instead

The model of the recorded requests is "script". Answers while recording are those of a stand-in; with --base_url they are
the server's, and are checked as far as any model gives them.
"""
import argparse
import base64
import http.server
import json
import pathlib
import struct
import threading
import zlib

import anthropic

OUT = pathlib.Path(__file__).resolve().parents[1] / "clients" / "anthropic.jsonl"
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {"name": "get_time", "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}}},
]
HEADERS = ("accept", "anthropic-version", "anthropic-beta", "authorization", "content-type", "x-api-key")


def picture():
    """A PNG of 4 x 4 pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"".join(bytes([60 * x, 60 * y, 100]) for x in range(4)) for y in range(4))
    header = struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def requests_of(client, model, with_pictures):
    """Every kind of request, as its documentation shows them. Yields what came back."""
    hello = [{"role": "user", "content": "Hello"}]
    yield "create", client.messages.create(model=model, max_tokens=64, messages=hello)
    yield "create", client.messages.create(
        model=model,
        max_tokens=32,
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        stop_sequences=["\n\nHuman:"],
        metadata={"user_id": "u-1"},
        messages=hello
        + [
            {"role": "assistant", "content": [{"type": "text", "text": "Hi!"}]},
            {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "two"}]},
        ],
    )
    with client.messages.stream(model=model, max_tokens=48, messages=hello) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    yield "stream", final
    assert text == "".join(block.text for block in final.content if block.type == "text")
    for choice in ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "get_time", "disable_parallel_tool_use": True},
                   {"type": "none"}):
        yield "tools", client.messages.create(model=model, max_tokens=128, tools=TOOLS, tool_choice=choice, messages=hello)
    with client.messages.stream(model=model, max_tokens=128, tools=TOOLS, tool_choice={"type": "any"}, messages=hello) as stream:
        for _ in stream:
            pass
        yield "stream", stream.get_final_message()
    yield "tools", client.messages.create(
        model=model,
        max_tokens=64,
        tools=TOOLS,
        messages=[
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "toolu_01A", "name": "get_weather", "input": {"city": "Paris"}},
                    {"type": "tool_use", "id": "toolu_01B", "name": "get_time", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "15 degrees"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_01B",
                        "is_error": True,
                        "content": [{"type": "text", "text": "no such zone"}],
                    },
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
    )
    yield "thinking", client.messages.create(
        model=model, max_tokens=1200, thinking={"type": "enabled", "budget_tokens": 1024}, messages=hello
    )
    with client.messages.stream(
        model=model, max_tokens=1200, thinking={"type": "enabled", "budget_tokens": 1024}, messages=hello
    ) as stream:
        for _ in stream:
            pass
        yield "stream", stream.get_final_message()
    yield "thinking", client.messages.create(
        model=model,
        max_tokens=64,
        thinking={"type": "adaptive"},
        output_config={"effort": "low"},
        messages=hello
        + [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "A greeting.", "signature": "transom-00"},
                    {"type": "redacted_thinking", "data": "AAAA"},
                    {"type": "text", "text": "Hi!"},
                ],
            },
            {"role": "user", "content": "Go on"},
        ],
    )
    yield "create", client.messages.create(
        model=model,
        max_tokens=64,
        output_config={
            "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": {"a": {"type": "boolean"}},
                    "required": ["a"],
                    "additionalProperties": False,
                },
            }
        },
        messages=hello,
    )
    yield "create", client.messages.create(
        model=model, max_tokens=16, messages=hello + [{"role": "assistant", "content": "The best answer is ("}]
    )
    yield "count", client.messages.count_tokens(model=model, system="Be brief.", tools=TOOLS, messages=hello)
    yield "models", client.models.list()
    yield "model", client.models.retrieve(model)
    yield "beta", client.beta.messages.create(
        model=model, max_tokens=16, messages=hello, betas=["interleaved-thinking-2025-05-14"]
    )
    if with_pictures:
        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture()).decode()}
        yield "picture", client.messages.create(
            model=model,
            max_tokens=16,
            messages=[
                {
                    "role": "user",
                    "content": [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}],
                }
            ],
        )


class StandIn(http.server.BaseHTTPRequestHandler):
    """Writes down what comes, and answers as little as the client takes."""

    protocol_version = "HTTP/1.1"
    seen = []

    def log_message(self, *_):
        pass

    def answer(self, body, kind="application/json"):
        data = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def record(self, body):
        headers = {name: self.headers[name] for name in HEADERS if self.headers[name]}
        line = {"method": self.command, "path": self.path, "headers": headers}
        if body:
            line["body"] = json.loads(body)
        self.seen.append(line)

    def do_GET(self):
        self.record("")
        model = {"type": "model", "id": "script", "display_name": "script", "created_at": "2026-01-01T00:00:00Z"}
        page = {"data": [model], "has_more": False, "first_id": "script", "last_id": "script"}
        self.answer(json.dumps(page if self.path.split("?")[0].endswith("models") else model))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.record(body)
        if "count_tokens" in self.path:
            return self.answer('{"input_tokens": 3}')
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "script",
            "content": [{"type": "text", "text": "Hi"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        }
        if not json.loads(body).get("stream"):
            return self.answer(json.dumps(message))
        start = dict(message, content=[], stop_reason=None)
        events = [
            ("message_start", {"message": start}),
            ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
            ("message_stop", {}),
        ]
        text = "".join(f"event: {name}\ndata: {json.dumps(dict(more, type=name))}\n\n" for name, more in events)
        self.answer(text, "text/event-stream")


def record():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = anthropic.Anthropic(api_key="key-1", base_url=f"http://127.0.0.1:{server.server_port}", max_retries=0)
    for _ in requests_of(client, "script", True):
        pass
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("".join(json.dumps(line) + "\n" for line in StandIn.seen))
    print(f"{OUT}: {len(StandIn.seen)} requests")


def ask(base_url, model, pictures, key):
    client = anthropic.Anthropic(api_key=key, base_url=base_url, max_retries=0)
    for kind, found in requests_of(client, model, pictures):
        if kind in ("count", "models", "model"):
            print(kind, found)
            continue
        assert found.type == "message" and found.role == "assistant" and found.stop_reason, found
        assert found.usage.output_tokens >= 0 and found.usage.input_tokens >= 0, found
        print(kind, found.stop_reason, [block.type for block in found.content], found.usage.output_tokens)
    try:
        client.messages.create(model="nobody", max_tokens=4, messages=[{"role": "user", "content": "a"}])
        raise SystemExit("an unknown model was taken")
    except anthropic.NotFoundError as error:
        print("unknown model:", error.type, error.request_id, error.message)
    try:
        client.messages.create(model=model, max_tokens=4, messages=[{"role": "user", "content": [{"type": "text"}]}])
        raise SystemExit("a broken block was taken")
    except anthropic.BadRequestError as error:
        print("broken block:", error.type, error.api_message)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--base_url")
    parser.add_argument("--model", default="script")
    parser.add_argument("--api_key", default="key-1")
    parser.add_argument("--pictures", action="store_true")
    given = parser.parse_args()
    if given.base_url:
        ask(given.base_url, given.model, given.pictures, given.api_key)
    else:
        record()
