# SPDX-License-Identifier: Apache-2.0
"""How peers run the networks of diffusers that picture_cases.py makes."""
import json
import os


def is_part(path):
    """Whether this is a network of diffusers."""
    config = os.path.join(path, "config.json")
    if not os.path.exists(config):  # files of one model, and folders of other programs
        return False
    with open(config, encoding="utf-8") as file:
        return "_diffusers_version" in json.load(file)


def load_part(path, dtype):
    """A module that gives a tuple of the network's one tensor, for the inputs by their names."""
    import diffusers
    import torch

    with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
        kind = getattr(diffusers, json.load(file)["_class_name"])

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = kind.from_pretrained(path, torch_dtype=dtype).eval()

        def forward(self, **inputs):
            if "latents" in inputs:
                return self.network.decode(inputs["latents"], return_dict=False)
            return self.network(**inputs, return_dict=False)

    # As pipelines use it on processors without NVIDIA's kernels: convolutions read rows of channels.
    return Part().to(memory_format=torch.channels_last)


def save_openvino(path, inputs, target, int8):
    """OpenVINO's own form, with weights of 8 bits where they are asked for, as `optimum-cli export openvino` makes it."""
    import openvino
    import torch

    part = load_part(path, torch.float32)
    names = list(inputs)

    class Positional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = part

        def forward(self, *values):
            return self.part(**dict(zip(names, values)))

    with torch.no_grad():
        model = openvino.convert_model(Positional().eval(), example_input=tuple(inputs.values()),
                                       input=[(list(tensor.shape)) for tensor in inputs.values()])
    for port, name in zip(model.inputs, names):
        port.get_tensor().set_names({name})
    if int8:
        import nncf

        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    openvino.save_model(model, target, compress_to_fp16=False)
