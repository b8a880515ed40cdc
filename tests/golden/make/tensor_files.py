# SPDX-License-Identifier: Apache-2.0
"""safetensors files as numpy arrays, for what needs no torch. A tensor of bfloat16 is its bits."""

import json
import struct

import numpy

TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "uint16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def read(path):
    """(tensors by name: (type, array), metadata), in the order of the file; None where a type is another."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    metadata, tensors = header.pop("__metadata__", None), {}
    for name, about in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if about["dtype"] not in TYPES:
            return None, None
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        array = numpy.frombuffer(data[begin:end], TYPES[about["dtype"]]).reshape(about["shape"])
        tensors[name] = (about["dtype"], array)
    return tensors, metadata


def write(path, tensors, metadata=None):
    """Larger elements first, so that each is aligned."""
    header, offset, data = {"__metadata__": metadata} if metadata else {}, 0, []
    for name, (kind, array) in sorted(tensors.items(), key=lambda item: (-item[1][1].itemsize, item[0])):
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
        data.append(numpy.ascontiguousarray(array).tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
