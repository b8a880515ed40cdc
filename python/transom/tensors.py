# SPDX-License-Identifier: Apache-2.0
"""Values of Python as tensors, and tensors as what a caller wants: of torch, of numpy, or Transom's own.

torch and numpy are used where the caller has imported them (or asks for them by name), and never needed.
"""
import sys

from .errors import UsageError
from .native import library

Tensor = library.Tensor


def _numpy(name="this"):
    try:
        import numpy
    except ImportError as error:
        raise UsageError(f"{name} needs numpy: pip install numpy") from error
    return numpy


def is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def to_tensor(value, name="a value"):
    """A Tensor of lists of numbers, of an array of numpy, a tensor of torch, or anything with __dlpack__."""
    if isinstance(value, Tensor):
        return value
    if is_torch(value):
        value = value.detach()
        if value.device.type != "cpu":
            value = value.cpu()
        return library.from_array(value.contiguous())
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        return library.from_array(_plain(value))
    if isinstance(value, (list, tuple)):
        return _from_lists(value, name)
    if isinstance(value, (bool, int)):
        return library.from_numbers([int(value)], [], "int64")
    if isinstance(value, float):
        return library.from_numbers([value], [], "float32")
    raise UsageError(f"{name}: expected a tensor, an array or lists of numbers, found {type(value).__name__}")


def _plain(array):
    """Arrays of numpy in an element type that tensors have, in the machine's byte order."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(array, (numpy.ndarray, numpy.generic)):
        return array
    array = numpy.asarray(array)
    if array.dtype in (numpy.int16, numpy.uint16, numpy.uint64):
        return array.astype(numpy.int64)
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    if not array.flags.c_contiguous:
        return numpy.ascontiguousarray(array)
    return array


def _from_lists(value, name):
    shape, flat = [], []
    level = value
    while isinstance(level, (list, tuple)):
        shape.append(len(level))
        level = level[0] if len(level) else None
    if level is not None and not isinstance(level, (bool, int, float)):
        if any(hasattr(each, "__array_interface__") or hasattr(each, "__dlpack__") for each in value):
            numpy = _numpy(name)
            return to_tensor(numpy.stack([as_numpy(each) for each in value]), name)

    def walk(part, axis):
        if axis == len(shape):
            flat.append(part)
            return
        if not isinstance(part, (list, tuple)) or len(part) != shape[axis]:
            raise UsageError(f"{name}: expected lists of one length at each level, found rows of different lengths; "
                             "pad them: padding=True")
        for each in part:
            walk(each, axis + 1)

    walk(value, 0)
    for each in flat:
        if not isinstance(each, (bool, int, float)):
            raise UsageError(f"{name}: expected numbers, found {type(each).__name__}; if rows have different lengths, "
                             "pad them: padding=True")
    floating = any(isinstance(each, float) for each in flat)
    if floating:
        return library.from_numbers([float(each) for each in flat], shape, "float32")
    return library.from_numbers([int(each) for each in flat], shape, "int64")


def as_numpy(value):
    """An array of numpy, without a copy where the memory allows it."""
    numpy = _numpy("an array")
    if isinstance(value, Tensor):
        return value.numpy()
    if is_torch(value):
        return value.detach().cpu().numpy()
    return numpy.asarray(value)


def as_torch(tensor):
    """A tensor of torch over the memory of `tensor`, where that is host memory."""
    import torch

    return torch.from_dlpack(tensor)


def in_kind(tensor, kind):
    """`kind`: "pt" torch, "np" numpy, "tr" Transom's own; None: "pt" if torch is imported, else Transom's own."""
    if kind is None:
        return tensor
    kind = getattr(kind, "value", kind)
    if kind == "pt":
        return as_torch(tensor) if "torch" in sys.modules else tensor
    if kind == "np":
        return as_numpy(tensor)
    if kind == "tr":
        return tensor
    raise UsageError(f"return_tensors: expected 'pt' or 'np', found {kind!r}")
