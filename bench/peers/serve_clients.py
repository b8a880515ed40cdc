#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The clients that people have, unchanged, against a served model: openai, langchain-openai, huggingface_hub, ollama,
lm-eval's local-completions, the parser of Prometheus, requests and server-sent events read by hand.

    serve_clients.py --transom build/release/bin/transom --model DIR [--embed DIR] [--hears DIR] [--schemas 50]
    serve_clients.py --url http://localhost:8000 --model NAME

Starts `transom serve` on a free port (with --url it asks a server that runs), checks answers, and prints a line a client;
the exit status is 1 if one failed. A client that is not installed is left out and named. With --schemas N, N random JSON
schemas are asked for and every answer is validated with `jsonschema`.

    pip install openai langchain-openai huggingface_hub ollama 'lm-eval[api]' transformers prometheus_client requests jsonschema
"""
import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def same(a, b, what):
    expect(a == b, f"{what}: {a!r} is not {b!r}")


# ---- clients; each gets the server's address, the name of the model that writes, and that of the one that embeds


TOOLS = [{"type": "function", "function": {"name": "set_light", "description": "turns a lamp on or off", "parameters": {
    "type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False}}}]


def by_openai(url, model, embed):
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    expect(model in [each.id for each in client.models.list()], "models.list() does not name the model")
    asked = dict(model=model, messages=[{"role": "user", "content": "hello there"}], max_tokens=12, temperature=0)
    whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    text = whole.choices[0].message.content
    same(len(whole.choices[0].logprobs.content), whole.usage.completion_tokens, "log probabilities")
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    same("".join(each.choices[0].delta.content or "" for each in chunks if each.choices), text, "streamed text")
    same(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens, "usage of the stream")
    drawn = dict(asked, temperature=1.1, seed=3, n=2)
    first, second = (client.chat.completions.create(**drawn) for _ in range(2))
    same([c.message.content for c in first.choices], [c.message.content for c in second.choices], "a seed's texts")
    echo = client.completions.create(model=model, prompt="the cat sat", max_tokens=0, echo=True, logprobs=1)
    expect(echo.choices[0].text.strip().startswith("the cat"), f"echo: {echo.choices[0].text!r}")
    expect(echo.choices[0].logprobs.token_logprobs[0] is None, "the first token follows nothing")
    answer = client.responses.create(model=model, input="hello there", max_output_tokens=12, temperature=0)
    expect(isinstance(answer.output_text, str), "responses")
    for broken, error in [(dict(temperature=9), openai.BadRequestError), (dict(model="other"), openai.NotFoundError)]:
        try:
            client.chat.completions.create(**dict(asked, **broken))
            expect(False, f"{broken} was taken")
        except error as refused:
            expect(refused.param == next(iter(broken)), f"{broken}: the error names {refused.param}")
    if embed:
        plain = client.embeddings.create(model=embed, input=["a cat", "rain"], encoding_format="float")
        packed = client.embeddings.create(model=embed, input=["a cat", "rain"])  # base64, decoded by the client
        for a, b in zip(plain.data, packed.data):
            expect(max(abs(x - y) for x, y in zip(a.embedding, b.embedding)) < 1e-6, "base64 holds other numbers")


def by_openai_helpers(url, model, embed):
    """What the official client builds on the plain calls: streams with events of their own, parsed answers, tools."""
    import openai
    import pydantic

    class Point(pydantic.BaseModel):
        x: int = pydantic.Field(ge=0, le=99)
        up: bool

    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    asked = dict(model=model, messages=[{"role": "user", "content": "hello there"}], temperature=0)
    parsed = client.chat.completions.parse(**asked, max_tokens=50, response_format=Point).choices[0].message.parsed
    expect(isinstance(parsed, Point), f"parse: {parsed!r}")
    with client.chat.completions.stream(**asked, max_tokens=50, response_format=Point) as stream:
        kinds = {event.type for event in stream}
        same(stream.get_final_completion().choices[0].message.parsed, parsed, "a parsed stream")
    expect({"content.delta", "content.done"} <= kinds, f"events of the stream: {kinds}")
    for choice in ("required", {"type": "function", "function": {"name": "set_light"}}):
        whole = client.chat.completions.create(**asked, max_tokens=50, tools=TOOLS, tool_choice=choice,
                                               parallel_tool_calls=False).choices[0].message.tool_calls
        same([call.function.name for call in whole], ["set_light"], "calls")
        expect(isinstance(json.loads(whole[0].function.arguments)["on"], bool), "arguments")
        with client.chat.completions.stream(**asked, max_tokens=50, tools=TOOLS, tool_choice=choice,
                                            parallel_tool_calls=False) as stream:
            for _ in stream:
                pass
            streamed = stream.get_final_completion().choices[0].message.tool_calls
        same([call.function.arguments for call in streamed], [call.function.arguments for call in whole], "streamed calls")
    answered = [{"role": "assistant", "content": None, "tool_calls": [whole[0].model_dump()]},
                {"role": "tool", "tool_call_id": whole[0].id, "content": "done"}]
    again = client.chat.completions.create(**dict(asked, messages=asked["messages"] + answered), max_tokens=8)
    expect(isinstance(again.choices[0].message.content, str), "an answer behind a call's result")
    text = client.responses.create(model=model, input="hello there", max_output_tokens=12, temperature=0).output_text
    with client.responses.stream(model=model, input="hello there", max_output_tokens=12, temperature=0) as stream:
        events = list(stream)  # the client takes no response that is cut off by its length for the final one
    same(events[-1].response.output_text, text, "the response of a stream")
    parts = [event.delta for event in events if event.type == "response.output_text.delta"]
    same("".join(parts), text, "streamed response")
    asked = dict(model=model, input="a point", max_output_tokens=50, temperature=0, text_format=Point)
    point = client.responses.parse(**asked).output_parsed
    expect(isinstance(point, Point), f"responses.parse: {point!r}")
    with client.responses.stream(**asked) as stream:
        same(stream.get_final_response().output_parsed, point, "a parsed stream of responses")


def by_openai_audio(url, model, embed):
    import io
    import math
    import struct
    import wave

    import openai

    name = os.environ.get("SERVED_EARS")
    if not name:
        return "left out: no --hears"
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(i * i / 9e5))) for i in range(16000)))
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)

    def asked(**more):
        return dict(model=name, file=("a.wav", sound.getvalue()), **more)

    text = client.audio.transcriptions.create(**asked()).text
    expect(isinstance(text, str), "transcription")
    same(client.audio.transcriptions.create(**asked(response_format="text")).strip(), text, "as text")
    verbose = client.audio.transcriptions.create(**asked(response_format="verbose_json"))
    expect(abs(verbose.duration - 1) < 0.01, f"duration {verbose.duration}")
    expect("-->" in client.audio.transcriptions.create(**asked(response_format="srt")) or not text, "srt")
    events = list(client.audio.transcriptions.create(**asked(stream=True)))
    same(events[-1].text, text, "the stream's text")
    same("".join(each.delta for each in events if each.type == "transcript.text.delta"), text, "streamed text")


def by_openai_async(url, model, embed):
    import asyncio

    import openai

    async def ask():
        client = openai.AsyncOpenAI(base_url=url + "/v1", api_key="none")
        asked = dict(model=model, max_tokens=8, temperature=0)
        prompts = [f"text number {i % 4}" for i in range(16)]
        answers = await asyncio.gather(*(client.completions.create(prompt=each, **asked) for each in prompts))
        texts = [each.choices[0].text for each in answers]
        for i, text in enumerate(texts):
            same(text, texts[i % 4], "an answer in company")
        chat = dict(model=model, max_tokens=8, temperature=0)

        async def streamed(content):
            messages = [{"role": "user", "content": content}]
            stream = await client.chat.completions.create(messages=messages, stream=True, **chat)
            return "".join([each.choices[0].delta.content or "" async for each in stream if each.choices])

        streams = await asyncio.gather(*(streamed(prompt) for prompt in prompts))
        for i, text in enumerate(streams):
            same(text, streams[i % 4], "a stream in company")
        await client.close()

    asyncio.run(ask())


def by_langchain(url, model, embed):
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    chat = ChatOpenAI(model=model, base_url=url + "/v1", api_key="none", temperature=0, max_tokens=10, max_retries=0)
    same("".join(each.content for each in chat.stream("hello there")), chat.invoke("hello there").content, "stream")
    schema = {"title": "point", "type": "object", "additionalProperties": False, "required": ["x", "up"],
              "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}, "up": {"type": "boolean"}}}
    longer = ChatOpenAI(model=model, base_url=url + "/v1", api_key="none", temperature=0, max_tokens=50, max_retries=0)
    point = longer.with_structured_output(schema, method="json_schema").invoke("a point")
    expect(0 <= point["x"] <= 99 and isinstance(point["up"], bool), f"structured output: {point}")
    bound = longer.bind_tools(TOOLS, tool_choice="any", parallel_tool_calls=False)
    call = bound.invoke("light").tool_calls[0]
    same(call["name"], "set_light", "a tool's name")
    whole = None
    for part in bound.stream("light"):
        whole = part if whole is None else whole + part
    same(whole.tool_calls[0]["args"], call["args"], "a streamed call")
    same([each.content for each in chat.batch(["a", "b", "c"])], [chat.invoke(each).content for each in "abc"], "a batch")
    if embed:
        vectors = OpenAIEmbeddings(model=embed, base_url=url + "/v1", api_key="none", check_embedding_ctx_length=False)
        same(len(vectors.embed_documents(["a cat", "rain"])), 2, "embed_documents")


def by_huggingface_hub(url, model, embed):
    from huggingface_hub import InferenceClient, constants

    constants.HF_HUB_OFFLINE = False  # else it asks no server, not even one on this machine
    client = InferenceClient(url, api_key="none")
    asked = dict(max_tokens=8, temperature=0)
    messages = [{"role": "user", "content": "hello there"}]
    whole = client.chat_completion(messages, model=url, **asked).choices[0].message.content if not embed else None
    named = InferenceClient(base_url=url + "/v1", api_key="none")
    text = named.chat.completions.create(messages=messages, model=model, **asked).choices[0].message.content
    expect(whole is None or whole == text, "a model without a name gives another answer")
    stream = named.chat.completions.create(messages=messages, model=model, stream=True, **asked)
    same("".join(each.choices[0].delta.content or "" for each in stream if each.choices), text, "stream")
    plain = client.text_generation("the cat", max_new_tokens=6, do_sample=False)
    parts = list(client.text_generation("the cat", max_new_tokens=6, do_sample=False, stream=True))
    same("".join(parts), plain, "text_generation's stream")
    details = client.text_generation("the cat", max_new_tokens=6, details=True, decoder_input_details=True)
    same(details.details.generated_tokens, 6, "generated_tokens")
    if embed:
        vector = InferenceClient(f"{url}/models/{embed}").feature_extraction("a cat")
        expect(vector.size > 0, "feature_extraction")


def by_ollama(url, model, embed):
    import ollama

    client = ollama.Client(host=url)
    expect(any(each.model.startswith(model) for each in client.list().models), "list() does not name the model")
    options = {"temperature": 0, "num_predict": 8}
    messages = [{"role": "user", "content": "hello there"}]
    text = client.chat(model=model, messages=messages, options=options).message.content
    parts = client.chat(model=model, messages=messages, options=options, stream=True)
    same("".join(each.message.content or "" for each in parts), text, "stream")
    expect(isinstance(client.generate(model=model, prompt="the cat", options=options).response, str), "generate")
    if embed:
        same(len(client.embed(model=embed, input=["a cat", "rain"]).embeddings), 2, "embed")


def by_lm_eval(url, model, embed):
    """A task of multiple choice and one of the log probabilities of whole texts, from files of its own."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    served = json.load(urllib.request.urlopen(url + "/v1/models"))["data"]
    length = next(each["max_model_len"] for each in served if each["id"] == model)
    with tempfile.TemporaryDirectory() as folder:
        rows, draw = Path(folder) / "rows.jsonl", random.Random(0)
        words = "the a cat dog sat ran on mat hill red old and saw".split()
        texts = [" ".join(draw.choices(words, k=draw.randint(3, 12))) for _ in range(24)]
        rows.write_text("".join(json.dumps({"text": text, "choices": [" on the mat", " on a red hill", " and ran"],
                                            "answer": i % 3}) + "\n" for i, text in enumerate(texts)))
        data = f"dataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {rows}\ntest_split: test\n"
        (Path(folder) / "choices.yaml").write_text(
            "task: choices\noutput_type: multiple_choice\n" + data + "doc_to_text: '{{text}}'\ndoc_to_target: answer\n"
            "doc_to_choice: choices\nmetric_list:\n  - metric: acc\n  - metric: acc_norm\n")
        (Path(folder) / "whole.yaml").write_text(
            "task: whole\noutput_type: loglikelihood_rolling\n" + data + "doc_to_text: ''\ndoc_to_target: '{{text}}'\n"
            "metric_list:\n  - metric: word_perplexity\n")
        found = []
        for batch, clients in ((1, 1), (8, 6)):
            answers = lm_eval.simple_evaluate(
                model="local-completions", tasks=["choices", "whole"], batch_size=batch, log_samples=True, bootstrap_iters=0,
                task_manager=TaskManager(include_path=folder, include_defaults=False),
                model_args=dict(model=model, base_url=url + "/v1/completions", tokenizer=os.environ["SERVED_MODEL"],
                                max_length=length - 1, num_concurrent=clients, tokenized_requests=True))
            found.append({task: [row["filtered_resps"] for row in sorted(rows, key=lambda row: row["doc_id"])]
                          for task, rows in answers["samples"].items()})
        same(len(found[0]["choices"]), len(texts), "answers")
        same(found[0], found[1], "log probabilities in company")


def by_prometheus(url, model, embed):
    from prometheus_client.parser import text_string_to_metric_families

    text = urllib.request.urlopen(url + "/metrics").read().decode()
    families = {each.name: each for each in text_string_to_metric_families(text)}
    for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:prompt_tokens",
                 "vllm:generation_tokens", "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
                 "vllm:e2e_request_latency_seconds", "vllm:request_success", "vllm:num_preemptions"):
        expect(name in families, f"no {name}")
        expect(all(sample.labels["model_name"] for sample in families[name].samples), f"{name} names no model")
    for family in families.values():
        if family.type == "histogram":
            counts = {}
            for sample in family.samples:
                if sample.name.endswith("_bucket"):
                    others = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
                    expect(sample.value >= counts.get(others, 0), f"the buckets of {family.name} fall")
                    counts[others] = sample.value


def by_requests(url, model, embed):
    import requests

    body = {"model": model, "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 8, "temperature": 0}
    session = requests.Session()
    text = session.post(url + "/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    parts, ended = [], False
    with session.post(url + "/v1/chat/completions", json=dict(body, stream=True), stream=True) as answer:
        expect(answer.headers["Content-Type"].startswith("text/event-stream"), "no stream of events")
        for line in answer.iter_lines():
            if not line.startswith(b"data: "):
                continue
            if line == b"data: [DONE]":
                ended = True
                continue
            for choice in json.loads(line[6:])["choices"]:
                parts.append(choice["delta"].get("content") or "")
    expect(ended, "the stream has no [DONE]")
    same("".join(parts), text, "stream")
    with session.post(url + "/v1/chat/completions", json=dict(body, stream=True, max_tokens=60), stream=True) as answer:
        next(answer.iter_lines())  # and leaves
    same(requests.post(url + "/v1/chat/completions", data="{").status_code, 400, "broken JSON")
    metrics = session.get(url + "/metrics").text
    expect("vllm:generation_tokens_total" in metrics and "# TYPE" in metrics, "metrics")
    same(session.get(url + "/health").status_code, 200, "health")


# ---- schemas


def random_schema(draw, depth=2):
    kind = draw.random()
    if depth == 0:
        kind *= 0.6
    if kind < 0.15:
        least = draw.randint(-50, 50)
        return draw.choice([
            {"type": "integer", "minimum": least, "maximum": least + draw.randint(9, 500), "multipleOf": draw.randint(1, 9)},
            {"type": "number", "minimum": least + 0.25, "exclusiveMaximum": least + draw.randint(1, 50)},
            {"allOf": [{"type": "integer", "minimum": least}, {"type": "number", "maximum": least + 40}]}])
    if kind < 0.3:
        return draw.choice([
            {"type": "string", "maxLength": draw.randint(0, 8)},
            {"type": "string", "pattern": "^[a-c]+$", "minLength": 2, "maxLength": draw.randint(2, 8)},
            {"type": "string", "maxLength": 6, "not": {"enum": ["", "a"]}},
            {"type": "object", "patternProperties": {"^s_": {"type": "string", "maxLength": 4}, "^[0-9]$": {"type": "integer"}},
             "additionalProperties": False, "maxProperties": 3},
            {"type": "array", "items": {"enum": draw.sample(range(20), draw.randint(2, 12))}, "uniqueItems": True,
             "maxItems": 4}])
    if kind < 0.45:
        return {"enum": draw.sample(["red", "green", 7, None, True, [1], {"a": 1}], 3)}
    if kind < 0.6:
        return {"type": draw.choice(["boolean", "null"])}
    if kind < 0.75:
        return {"type": "array", "items": random_schema(draw, depth - 1), "maxItems": draw.randint(1, 3)}
    if kind < 0.85:
        tags = draw.sample(["cat", "dog", "bird"], 2)
        return {"oneOf": [{"type": "object", "required": ["kind", "of"], "additionalProperties": False,
                           "properties": {"kind": {"const": tag}, "of": random_schema(draw, depth - 1)}} for tag in tags]}
    names = draw.sample(["name", "count", "on", "größe"], draw.randint(1, 3))
    schema = {"type": "object", "properties": {name: random_schema(draw, depth - 1) for name in names},
              "required": names[: draw.randint(0, len(names))], "additionalProperties": False}
    if draw.random() < 0.3:  # what stands beside a list of schemas holds for each
        schema["anyOf"] = [{"required": [name]} for name in names]
    return {"allOf": [schema, {"type": "object", "minProperties": 1}]} if draw.random() < 0.2 else schema


def schemas(url, model, count):
    import jsonschema

    ended = 0
    for number in range(count):
        schema = random_schema(random.Random(number))
        body = {"model": model, "prompt": "a", "max_tokens": 110, "temperature": 1, "seed": number,
                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        choice = json.load(urllib.request.urlopen(request))["choices"][0]
        if choice["finish_reason"] != "stop":
            continue  # longer than the model's context
        jsonschema.validate(json.loads(choice["text"]), schema, jsonschema.Draft202012Validator)
        ended += 1
    expect(ended > count // 2, f"only {ended} of {count} texts ended")
    return f"{ended} of {count} texts ended, all valid"


# ---- the server


def with_timestamps(model, folder):
    """A model of Whisper's kind as it is; where its generation_config.json has been left at what Transformers makes of
    config.json, a copy whose configuration names the token that turns timestamps off, which it needs to give any."""
    source = Path(model)
    generation, tokenizer = source / "generation_config.json", source / "tokenizer.json"
    if not generation.exists() or not tokenizer.exists():
        return model
    fields = json.loads(generation.read_text())
    ids = [token["id"] for token in json.loads(tokenizer.read_text())["added_tokens"]
           if token["content"] == "<|notimestamps|>"]
    if "no_timestamps_token_id" in fields or not ids:
        return model
    for file in source.iterdir():
        (Path(folder) / file.name).symlink_to(file.resolve())
    (Path(folder) / generation.name).unlink()
    (Path(folder) / generation.name).write_text(json.dumps(dict(fields, no_timestamps_token_id=ids[0])))
    return folder


def started(arguments, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    models = [f"writes={arguments.model}"] + ([f"embeds={arguments.embed}"] if arguments.embed else [])
    if arguments.hears:
        models.append(f"hears={with_timestamps(arguments.hears, folder)}")
        os.environ["SERVED_EARS"] = "hears"
    server = subprocess.Popen([arguments.transom, "serve", *models, "--port", str(port)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            if urllib.request.urlopen(url + "/health").status == 200:
                return server, url
        except (urllib.error.URLError, ConnectionError):
            if server.poll() is not None:
                sys.exit(f"the server ended with {server.returncode}")
            time.sleep(0.1)
    sys.exit("the server does not become ready")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # through `finally`, which ends the servers
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transom", default="build/release/bin/transom")
    parser.add_argument("--url")
    parser.add_argument("--model", required=True)
    parser.add_argument("--embed")
    parser.add_argument("--hears", help="a model of speech recognition")
    parser.add_argument("--tokenizer", help="folder of the tokenizer, where --model is a name")
    parser.add_argument("--schemas", type=int, default=0)
    arguments = parser.parse_args()
    os.environ.setdefault("NO_PROXY", "*")
    os.environ["SERVED_MODEL"] = arguments.tokenizer or arguments.model  # lm-eval asks with tokens
    server, url, model, embed = None, arguments.url, arguments.model, arguments.embed
    folder = tempfile.TemporaryDirectory()
    if not url:
        server, url = started(arguments, folder.name)
        model, embed = "writes", "embeds" if embed else None
    clients = (by_openai, by_openai_helpers, by_openai_audio, by_openai_async, by_langchain, by_huggingface_hub, by_ollama,
               by_lm_eval, by_prometheus, by_requests)
    checks = [(by.__name__[3:], lambda by=by: by(url, model, embed)) for by in clients]
    if arguments.schemas:
        checks.append(("schemas", lambda: schemas(url, model, arguments.schemas)))
    failed = 0
    try:
        for name, check in checks:
            begin = time.time()
            try:
                said = check()
                print(f"{name:16} passed in {time.time() - begin:.1f} s{': ' + said if said else ''}")
            except ImportError as missing:
                print(f"{name:16} left out: {missing}")
            except Exception as error:  # what a client raises is what is wanted here
                failed += 1
                print(f"{name:16} FAILED: {type(error).__name__}: {error}")
    finally:
        if server:
            server.send_signal(signal.SIGTERM)
            same(server.wait(60), 0, "the server's exit status")
        folder.cleanup()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
