#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One peer in a process of its own: loads a model, runs it once, then answers `run N` with the seconds of N runs.

The dialogue is that of `transom bench --interactive`: lines of JSON on standard output. race.py starts it.
"""
import argparse
import json
import os
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--peer", required=True, choices=["torch", "compile", "onnxruntime", "openvino", "sentence-transformers"])
parser.add_argument("--model", required=True)
parser.add_argument("--inputs", required=True, help="tensors (.safetensors), or lines of text")
parser.add_argument("--training", action="store_true")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--threads", type=int, default=2)
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "true"
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print goes to standard error

import torch  # noqa: E402  (the environment comes first)

torch.set_num_threads(arguments.threads)
bfloat16 = arguments.dtype == "bfloat16"


def load_model(**options):
    import transformers

    config = transformers.AutoConfig.from_pretrained(arguments.model)
    return getattr(transformers, config.architectures[0]).from_pretrained(arguments.model, **options)


def load_inputs():
    from safetensors.torch import load_file

    return load_file(arguments.inputs)


def training():
    """A step as Trainer does it: forward, backward, clipping, AdamW; bf16 by autocast."""
    model, inputs = load_model().train(), load_inputs()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0, fused=True)
    forward = torch.compile(model) if arguments.peer == "compile" else model

    def run():
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = forward(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return run


def inference():
    """bf16 as `dtype=torch.bfloat16` gives it: weights and activations."""
    model = load_model(dtype=torch.bfloat16 if bfloat16 else torch.float32).eval()
    inputs = {name: tensor for name, tensor in load_inputs().items() if name != "labels"}
    if arguments.peer == "compile":
        model = torch.compile(model)

    def run():
        with torch.inference_mode():
            model(**inputs)

    return run


def export_onnx(path):
    """The model as ONNX for the shapes of the inputs; kept for the next process."""
    if os.path.exists(path):
        return
    inputs = {name: tensor for name, tensor in load_inputs().items() if name != "labels"}
    if "pixel_values" in inputs:

        class Logits(torch.nn.Module):  # the exporter takes tuples, some image models do not give them
            def __init__(self):
                super().__init__()
                self.model = load_model().eval()

            def forward(self, pixel_values):
                return self.model(pixel_values=pixel_values).logits

        model = Logits().eval()
    else:
        model = load_model(attn_implementation="eager").eval()
        model.config.return_dict = False
    torch.onnx.export(model, (), path + ".part", kwargs=inputs, input_names=list(inputs), external_data=False)
    os.rename(path + ".part", path)


def onnx_inference():
    path = f"{arguments.inputs}.{os.path.basename(os.path.normpath(arguments.model))}.onnx"
    export_onnx(path)
    inputs = {name: tensor.numpy() for name, tensor in load_inputs().items() if name != "labels"}
    if arguments.peer == "openvino":
        import openvino

        precision = "bf16" if bfloat16 else "f32"
        core = openvino.Core()
        compiled = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": arguments.threads, "PERFORMANCE_HINT": "LATENCY",
                                                    "INFERENCE_PRECISION_HINT": precision})
        names = {name for port in compiled.inputs for name in port.names}
        feed = {name: value for name, value in inputs.items() if name in names}
        return lambda: compiled(feed)
    import onnxruntime

    if bfloat16:
        raise SystemExit("ONNX Runtime's CPU kernels have no bfloat16")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it would take the cores of the others
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {port.name for port in session.get_inputs()}
    feed = {name: value for name, value in inputs.items() if name in names}
    return lambda: session.run(None, feed)


def embeddings():
    from sentence_transformers import SentenceTransformer

    with open(arguments.inputs, encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n") if line]
    model = SentenceTransformer(arguments.model, device="cpu")
    if bfloat16:
        model = model.to(torch.bfloat16)
    return lambda: model.encode(lines, batch_size=32, show_progress_bar=False)


def answer(value):
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def main():
    begin = time.perf_counter()
    if arguments.peer == "sentence-transformers":
        run = embeddings()
    elif arguments.training:
        run = training()
    elif arguments.peer in ("onnxruntime", "openvino"):
        run = onnx_inference()
    else:
        run = inference()
    loaded = time.perf_counter()
    run()
    answer({"ready": True, "load_model": loaded - begin, "first": time.perf_counter() - loaded})
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        seconds = []
        for _ in range(int(line.split()[1])):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        answer({"seconds": seconds})


main()
