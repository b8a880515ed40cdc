#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One peer in a process of its own: loads a model, runs it once, then answers `run N` with the seconds of N runs.

The dialogue is that of `transom bench --interactive`: lines of JSON on standard output. race.py starts it.
"""
import argparse
import functools
import json
import os
import subprocess
import sys
import time

import picture_models

parser = argparse.ArgumentParser()
parser.add_argument("--peer", required=True, choices=["torch", "compile", "onnxruntime", "openvino", "sentence-transformers"])
parser.add_argument("--model", required=True)
parser.add_argument("--inputs", required=True, help="tensors (.safetensors), or lines of text")
parser.add_argument("--training", action="store_true")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "int8", "static"])
parser.add_argument("--calibration", help="static: tensors that show the scales of inputs")
parser.add_argument("--export", action="store_true", help="only write the model as ONNX (used by this script itself)")
parser.add_argument("--threads", type=int, default=2)
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "true"
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print goes to standard error

bfloat16, int8, static = (arguments.dtype == name for name in ("bfloat16", "int8", "static"))
onnx = arguments.peer in ("onnxruntime", "openvino")
if not onnx or arguments.export:  # a process that runs ONNX does not carry PyTorch's memory
    import torch  # noqa: E402  (the environment comes first)

    torch.set_num_threads(arguments.threads)


def load_model(**options):
    if os.path.basename(os.path.normpath(arguments.model)) == "dlrm":
        return load_dlrm()
    if picture_models.is_part(arguments.model):
        return picture_models.load_part(arguments.model, options.get("dtype", torch.float32))
    import transformers

    config = transformers.AutoConfig.from_pretrained(arguments.model)
    return getattr(transformers, config.architectures[0]).from_pretrained(arguments.model, **options)


def load_dlrm():
    from safetensors.torch import load_file

    import dlrm_model

    with open(os.path.join(arguments.model, "config.json"), encoding="utf-8") as file:
        model = dlrm_model.DLRM(json.load(file))
    model.load_state_dict(load_file(os.path.join(arguments.model, "model.safetensors")))
    return model


def load_inputs(file=arguments.inputs):
    from safetensors.torch import load_file

    return load_file(file)


def training():
    """A step as Trainer does it: forward, backward, clipping, AdamW; bf16 by autocast."""
    model, inputs = load_model().train(), load_inputs()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0, fused=True)
    forward = torch.compile(model) if arguments.peer == "compile" else model

    def run(inputs=inputs):
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
    if bfloat16 and picture_models.is_part(arguments.model):  # pipelines give them the numbers in their own type
        inputs = {name: tensor.bfloat16() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
    if int8:
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    if arguments.peer == "compile":
        model = torch.compile(model)

    def run(inputs=inputs):
        with torch.inference_mode():
            return model(**inputs)

    return run


def onnx_file():
    return f"{arguments.inputs}.{os.path.basename(os.path.normpath(arguments.model))}.onnx"


def exported_file():
    """The model's file for ONNX Runtime or OpenVINO."""
    if picture_models.is_part(arguments.model):  # larger than one ONNX file may be
        return onnx_file().replace(".onnx", f".{'int8' if int8 else 'f32'}.xml")
    return onnx_file()


def exported():
    """The model as ONNX for the shapes of the inputs (of any shape for lines of text); kept for the next process."""
    path = exported_file()
    if not os.path.exists(path):
        subprocess.run([sys.executable, *sys.argv, "--export"], check=True)
    if static:
        return static_file(path)
    if not int8 or path.endswith(".xml"):
        return path
    small = path.replace(".onnx", ".int8.onnx")
    if not os.path.exists(small):
        import onnx
        from onnxruntime import quantization

        model = onnx.load(path)
        del model.graph.value_info[:]  # the exporter's shapes of weights that it transposes contradict those inferred
        onnx.save(model, small + ".f32")
        quantization.quantize_dynamic(small + ".f32", small + ".part", weight_type=quantization.QuantType.QInt8)
        os.remove(small + ".f32")
        os.rename(small + ".part", small)
    return small


def static_file(path):
    """The ONNX file with 8-bit weights and inputs: by ONNX Runtime's QDQ nodes, or by NNCF for OpenVINO."""
    made = path.replace(".onnx", ".nncf.xml" if arguments.peer == "openvino" else ".qdq.onnx")
    if not os.path.exists(made):
        # In a process of its own, so that the tools' memory is not the peer's.
        subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "static_quantization.py"),
                        arguments.peer, path, arguments.calibration, made], check=True)
    return made


def export_embedder(path):
    """An encoder for batches of any size and length."""
    import transformers

    model = transformers.AutoModel.from_pretrained(arguments.model, attn_implementation="eager").eval()
    model.config.return_dict = False
    names = ["input_ids", "attention_mask", "token_type_ids"]
    inputs = {name: torch.ones(2, 8, dtype=torch.long) for name in names}
    shape = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}
    torch.onnx.export(model, (), path + ".part", kwargs=inputs, input_names=names, external_data=False,
                      dynamic_shapes={name: shape for name in names})
    os.rename(path + ".part", path)


def with_tensors_alone(names):
    """A model of these inputs that gives its tensors alone: parts of CLIP and Whisper cannot do without their names."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = load_model(attn_implementation="eager").eval()
            self.model.config.use_cache = False

        def forward(self, *values):
            made = self.model(**dict(zip(names, values)), return_dict=True)
            return tuple(value for value in made.to_tuple() if isinstance(value, torch.Tensor))

    return Module()


def export_onnx(path):
    if not arguments.inputs.endswith(".safetensors"):
        return export_embedder(path)
    inputs = {name: tensor for name, tensor in load_inputs().items() if name != "labels"}
    if picture_models.is_part(arguments.model):
        return picture_models.save_openvino(arguments.model, inputs, exported_file(), int8)
    if "lS_o" in inputs:
        return export_dlrm(path, inputs)
    if set(inputs) == {"pixel_values"}:

        class Logits(torch.nn.Module):  # the exporter takes tuples, some image models do not give them
            def __init__(self):
                super().__init__()
                self.model = load_model().eval()

            def forward(self, pixel_values):
                made = self.model(pixel_values=pixel_values)
                return made.logits if "logits" in made else made.to_tuple()

        model = Logits().eval()
    else:
        model = with_tensors_alone(list(inputs)).eval()
    torch.onnx.export(model, tuple(inputs.values()), path + ".part", input_names=list(inputs), external_data=False)
    os.rename(path + ".part", path)


def export_dlrm(path, inputs):
    import dlrm_model

    tables = sum(name.startswith("lS_i.") for name in inputs)
    indices = torch.stack([inputs[f"lS_i.{i}"] for i in range(tables)])
    # The tables alone are 700 MB; one file holds less than 2 GB.
    torch.onnx.export(dlrm_model.OneEach(load_model().eval()), (inputs["dense_x"], indices), path + ".part",
                      input_names=["dense_x", "indices"], external_data=False)
    os.rename(path + ".part", path)


def onnx_inference():
    import numpy
    from safetensors.numpy import load_file

    path = exported()
    inputs = {name: array for name, array in load_file(arguments.inputs).items() if name != "labels"}
    if "lS_o" in inputs:  # as export_dlrm has them
        tables = sum(name.startswith("lS_i.") for name in inputs)
        inputs["indices"] = numpy.stack([inputs[f"lS_i.{i}"] for i in range(tables)])
    if arguments.peer == "openvino":
        import openvino

        precision = "bf16" if bfloat16 else "f32"
        core = openvino.Core()
        compiled = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": arguments.threads, "PERFORMANCE_HINT": "LATENCY",
                                                    "INFERENCE_PRECISION_HINT": precision})
        names = {name for port in compiled.inputs for name in port.names}
        feed = {name: value for name, value in inputs.items() if name in names}
        return lambda: compiled(feed)
    if bfloat16:
        raise SystemExit("ONNX Runtime's CPU kernels have no bfloat16")
    session = onnx_session(path)
    names = {port.name for port in session.get_inputs()}
    feed = {name: value for name, value in inputs.items() if name in names}
    return lambda: session.run(None, feed)


def onnx_session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it would take the cores of the others
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnx_embeddings():
    """Batches of 32 in the order of length, the mean over the tokens, length 1: what SentenceTransformer does."""
    import numpy
    import tokenizers

    session = onnx_session(exported())
    names = {port.name for port in session.get_inputs()}
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(arguments.model, "tokenizer.json"))
    tokenizer.enable_truncation(256)
    lines = read_lines()
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))

    def run():
        found = [None] * len(lines)
        for begin in range(0, len(order), 32):
            rows = order[begin:begin + 32]
            tokenizer.enable_padding()
            batch = tokenizer.encode_batch([lines[i] for i in rows])
            feed = {"input_ids": numpy.array([row.ids for row in batch], dtype=numpy.int64),
                    "attention_mask": numpy.array([row.attention_mask for row in batch], dtype=numpy.int64)}
            feed["token_type_ids"] = numpy.zeros_like(feed["input_ids"])
            states = session.run(None, {name: value for name, value in feed.items() if name in names})[0]
            mask = feed["attention_mask"][:, :, None].astype(numpy.float32)
            means = (states * mask).sum(1) / mask.sum(1)
            means /= numpy.linalg.norm(means, axis=1, keepdims=True)
            for i, mean in zip(rows, means):
                found[i] = mean
        return found

    return run


def read_lines():
    with open(arguments.inputs, encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if line]


def embeddings():
    from sentence_transformers import SentenceTransformer

    lines = read_lines()
    model = SentenceTransformer(arguments.model, device="cpu")
    if bfloat16:
        model = model.to(torch.bfloat16)
    return lambda: model.encode(lines, batch_size=32, show_progress_bar=False)


def save_outputs(made, path):
    """What a run gives, by name where it has one, for race.py's comparison."""
    import numpy
    from safetensors.numpy import save_file

    if hasattr(made, "items"):
        named = {str(name): value for name, value in made.items()}
    else:
        named = {f"output {i}": value for i, value in enumerate(made)}
    arrays = {}
    for name, value in named.items():
        if not onnx and isinstance(value, torch.Tensor):
            value = value.float().numpy()
        if isinstance(value, numpy.ndarray):
            arrays[name] = numpy.ascontiguousarray(value, numpy.float32)
    save_file(arrays, path)


def answer(value):
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def main():
    begin = time.perf_counter()
    if arguments.peer == "sentence-transformers":
        run = embeddings()
    elif arguments.training:
        run = training()
    elif arguments.export:
        return export_onnx(exported_file())
    elif onnx:
        run = onnx_inference() if arguments.inputs.endswith(".safetensors") else onnx_embeddings()
    else:
        run = inference()
    loaded = time.perf_counter()
    run()
    answer({"ready": True, "load_model": loaded - begin, "first": time.perf_counter() - loaded})
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        if line.startswith("inputs "):
            run = functools.partial(run.func if isinstance(run, functools.partial) else run, load_inputs(line.split()[1]))
            answer({})
            continue
        if line.startswith("outputs "):
            save_outputs(run(), line.split(maxsplit=1)[1].strip())
            answer({})
            continue
        seconds = []
        for _ in range(int(line.split()[1])):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        answer({"seconds": seconds})


main()
