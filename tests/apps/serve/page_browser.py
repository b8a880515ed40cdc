#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses the page of a server in a headless Chromium, as a person would, over the DevTools protocol.

  tests/apps/serve/page_browser.py CHROMIUM URL

The server has models called chat, embed and classify. Prints what is wrong, one line each; exit status 1 if any."""
import base64
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

PATIENCE = 120  # seconds, for loaded machines


class DevTools:
    """A page of the browser, over a WebSocket (RFC 6455)."""

    def __init__(self, url):
        host, port, path = re.match(r"ws://([^:/]+):(\d+)(/.*)", url).groups()
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                             "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.socket.recv(1)
        self.number, self.complaints = 0, []

    def _bytes(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the browser has gone")
            data += part
        return data

    def _receive(self):
        text = b""
        while True:
            first, second = self._bytes(2)
            length = second & 127
            if length > 125:
                length = struct.unpack(">H" if length == 126 else ">Q", self._bytes(2 if length == 126 else 8))[0]
            text += self._bytes(length)
            if first & 128:
                return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        data = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        mask = os.urandom(4)
        head = bytes([129]) + (bytes([128 | len(data)]) if len(data) < 126 else
                               bytes([128 | 126]) + struct.pack(">H", len(data)))
        self.socket.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))
        while True:
            message = self._receive()
            if message.get("id") == self.number:
                return message.get("result", {})
            if message.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"])[:500])
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.complaints.append(message["params"]["entry"]["text"])

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {json.dumps(result['exceptionDetails'])[:300]}")
        return result["result"].get("value")

    def wait(self, expression):
        until = time.time() + PATIENCE
        while time.time() < until:
            if self.value(expression):
                return
            time.sleep(0.1)
        raise TimeoutError(f"{expression} did not become true")

    def fill(self, name, text):
        self.value(f"document.getElementById('{name}').value = {json.dumps(text)}")

    def press(self, name):
        self.value(f"document.getElementById('{name}').click()")


def text_of(page, place):
    return page.value(f"document.querySelector({json.dumps(place)}).textContent")


def use(page, expect):
    page.wait("models.length === 3")
    expect(page.value("at('model').options.length") == 3, "the list of models has three")
    expect(page.value("!at('chat').hidden && at('task').hidden"), "a model that writes has the chat")
    # An answer, streamed.
    page.fill("max_tokens", "20")
    page.fill("temperature", "0")
    page.fill("question", "hello <b>you</b>")
    page.press("send")
    page.wait("!running && messages.length === 2")
    answer = text_of(page, ".message.assistant")
    expect(len(answer) > 0, "an answer is shown")
    expect(text_of(page, ".message.user") == "hello <b>you</b>", "what was asked is shown as it was written")
    figures = text_of(page, "#figures")
    expect("first token" in figures and "tokens/s" in figures, f"figures are shown, found {figures!r}")
    # Again gives the same, as the temperature is 0.
    page.press("again")
    page.wait("!running && messages.length === 2")
    expect(text_of(page, ".message.assistant") == answer, "the same question has the same answer")
    # An answer that is stopped. Many tokens, so that it runs for a while.
    page.fill("max_tokens", "")
    page.fill("question", "more")
    page.press("send")
    page.wait("running && document.querySelector('.message:last-child').textContent.length > 0 || !running")
    was_running = page.value("Boolean(running)")
    page.press("stop")
    page.wait("!running")
    if was_running:
        expect("stopped" in text_of(page, ".message:last-child"), "a stopped answer says so")
    # What is refused is said.
    page.fill("max_tokens", "100000000")
    page.fill("question", "too long")
    page.press("send")
    page.wait("!running")
    expect(page.value("at('figures').classList.contains('wrong')"), "a refusal is shown")
    page.press("clear")
    expect(page.value("at('messages').childElementCount") == 0, "a new conversation is empty")
    # The forms of other tasks.
    choose = "at('model').value = '{}'; at('model').dispatchEvent(new Event('change'))"
    page.value(choose.format("embed"))
    expect(page.value("at('chat').hidden && !at('task').hidden"), "a model that does not write has a form")
    page.fill("field-text", "a cat\nrain\na cat")
    page.press("run")
    page.wait("document.querySelectorAll('#result tr').length === 4")
    cells = page.value("[...document.querySelectorAll('#result tr:nth-child(2) td')].map((c) => c.textContent)")
    expect(cells[1] == cells[3] == "1.0000", f"equal texts are alike, found {cells}")
    page.value(choose.format("classify"))
    page.fill("field-text", "good")
    page.press("run")
    page.wait("document.querySelectorAll('#result meter').length > 0")
    # Light and dark.
    colors = []
    for scheme in ("light", "dark"):
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        colors.append(page.value("getComputedStyle(document.body).backgroundColor"))
    expect(colors[0] != colors[1], f"light and dark differ, found {colors}")
    # The policy lets nothing else run.
    page.value("""new Promise((done) => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';
                   document.body.append(s); setTimeout(done, 100); })""")
    expect(page.value("window.ran === undefined"), "a script that is not the page's own does not run")


def main(browser, url):
    wrong = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                    "--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={folder}",
                                    "about:blank"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            address = None
            for line in process.stderr:
                if found := re.search(r"DevTools listening on ws://([^/]+)/", line):
                    address = found.group(1)
                    break
            if not address:
                print("no browser could be started")
                return 77
            request = urllib.request.Request(f"http://{address}/json/new?about:blank", method="PUT")
            page = DevTools(json.load(urllib.request.urlopen(request, timeout=PATIENCE))["webSocketDebuggerUrl"])
            for domain in ("Runtime", "Log", "Page"):
                page.call(domain + ".enable")
            page.call("Page.navigate", url=url)
            page.wait("document.readyState === 'complete' && typeof models !== 'undefined'")
            try:
                use(page, lambda good, what: wrong.append("expected: " + what) if not good else None)
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")
            # Two are expected: the refusal of the long answer, and that of the foreign script.
            for text in page.complaints:
                if "400" not in text and "Content Security Policy" not in text:
                    wrong.append("the console says: " + text)
        finally:
            process.kill()
            process.wait()
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
