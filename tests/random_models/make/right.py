# SPDX-License-Identifier: Apache-2.0
"""What the standard says where the evaluators are known to say something else, in numpy.

- ONNX Runtime: SAME_UPPER and SAME_LOWER of windows below the stride (negative padding) and of dilated ones; NaN and
  -infinity in MaxPool, GlobalMaxPool, ReduceMax and ReduceMin; rows of LogSoftmax that hold infinity; windows that do not
  fit once (Maker.step leaves them out: they are refused).
- The reference evaluator: Erf in float32 only; constants of HardSwish and Gelu rounded to float32; auto_pad of
  ConvTranspose and of pooling; GlobalMaxPool of three axes; BatchNormalization before opset 14, whose statistics it takes
  from the batch; PRelu of 0 by infinity; ReduceMax of no bool; LogSoftmax of the largest numbers.
"""
import itertools
import math

import numpy as np

from evaluators import Unfit


def of_windows(extent, kernel, stride, dilation, low, high, automatic):
    """(padding before, padding behind, places) of an axis."""
    covered = (kernel - 1) * dilation + 1
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        needed = max((-(-extent // stride) - 1) * stride + covered - extent, 0)
        low = needed // 2 if automatic == "SAME_UPPER" else needed - needed // 2
        high = needed - low
    elif automatic == "VALID":
        low = high = 0
    if extent + low + high < covered:
        raise Unfit  # refused
    return low, high, (extent + low + high - covered) // stride + 1


class Windows:
    """The attributes of a convolution or a pooling over the spatial axes of x."""

    def __init__(self, shape, kernel_shape, strides=None, dilations=None, pads=None, auto_pad="NOTSET", **_):
        spatial = len(kernel_shape)
        self.kernel, self.strides = kernel_shape, strides or [1] * spatial
        self.dilations, pads = dilations or [1] * spatial, pads or [0] * 2 * spatial
        axes = [of_windows(shape[i + 2], kernel_shape[i], self.strides[i], self.dilations[i], pads[i], pads[i + spatial],
                           auto_pad) for i in range(spatial)]
        self.low, self.high, self.places = zip(*axes)

    def pads(self):
        return any(self.low) or any(self.high)

    def taps(self, x, value):
        """For each place of the window: its index, and what of x the windows see there."""
        x = np.pad(x, [(0, 0), (0, 0)] + list(zip(self.low, self.high)), constant_values=value)
        for tap in itertools.product(*(range(k) for k in self.kernel)):
            at = tuple(slice(t * d, t * d + (n - 1) * s + 1, s)
                       for t, d, n, s in zip(tap, self.dilations, self.places, self.strides))
            yield tap, x[(slice(None), slice(None)) + at]


def convolution(x, w, bias=None, group=1, **attributes):
    windows, (outputs, channels) = Windows(x.shape, **attributes), w.shape[:2]
    result = np.zeros((x.shape[0], outputs) + windows.places)
    for tap, seen in windows.taps(x.astype("f8"), 0):
        for g in range(group):
            own = slice(g * outputs // group, (g + 1) * outputs // group)
            result[:, own] += np.einsum("nc...,oc->no...", seen[:, g * channels:(g + 1) * channels],
                                        w[(own, slice(None)) + tap].astype("f8"))
    if bias is not None:
        result += bias.reshape((1, -1) + (1,) * len(windows.places))
    return result.astype(x.dtype)


def transposed_convolution(x, w, bias=None, group=1, strides=None, pads=None, auto_pad="NOTSET", kernel_shape=None):
    spatial = len(kernel_shape)
    strides, pads = strides or [1] * spatial, pads or [0] * 2 * spatial
    whole = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel_shape)]
    channels, outputs = x.shape[1] // group, w.shape[1]
    result = np.zeros([x.shape[0], outputs * group] + whole)
    for tap in itertools.product(*(range(k) for k in kernel_shape)):
        at = tuple(slice(t, t + (n - 1) * s + 1, s) for t, n, s in zip(tap, x.shape[2:], strides))
        for g in range(group):
            own = slice(g * channels, (g + 1) * channels)
            result[(slice(None), slice(g * outputs, (g + 1) * outputs)) + at] += np.einsum(
                "nc...,co->no...", x[:, own].astype("f8"), w[(own, slice(None)) + tap].astype("f8"))
    for i in range(spatial):
        axis, low, high = i + 2, pads[i], pads[i + spatial]
        if auto_pad.startswith("SAME"):  # negative where the window is below the stride
            cut = whole[i] - x.shape[axis] * strides[i]
            low = cut // 2 if auto_pad == "SAME_UPPER" else cut - cut // 2
            high = cut - low
        elif auto_pad == "VALID":
            low = high = 0
        if max(low, 0) + max(high, 0) > whole[i]:
            raise Unfit
        result = np.moveaxis(result, axis, 0)[max(low, 0):whole[i] - max(high, 0)]
        grown = [(max(-low, 0), max(-high, 0))] + [(0, 0)] * (result.ndim - 1)
        result = np.moveaxis(np.pad(result, grown), 0, axis)
    if bias is not None:
        result = result + bias.reshape((1, -1) + (1,) * spatial)
    return result.astype(x.dtype)


def max_pool(x, **attributes):
    return np.maximum.reduce([seen for _, seen in Windows(x.shape, **attributes).taps(x, -np.inf)])


def average_pool(x, count_include_pad=0, **attributes):
    windows = Windows(x.shape, **attributes)
    total = sum(seen for _, seen in windows.taps(x.astype("f8"), 0))
    count = sum(seen for _, seen in windows.taps(np.ones((1, 1) + x.shape[2:]), 1 if count_include_pad else 0))
    return (total / count).astype(x.dtype)


def global_max_pool(x):
    return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)


def erf(x):
    return np.array([math.erf(v) for v in x.astype("f8").ravel()]).reshape(x.shape).astype(x.dtype)


def gelu(x, approximate):
    wide = x.astype("f8")
    inner = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide ** 3)) if approximate == "tanh" else erf(wide / np.sqrt(2))
    return (0.5 * wide * (1 + inner)).astype(x.dtype)


def hard_sigmoid(x, alpha=float(np.float32(0.2)), beta=0.5):
    return np.maximum(0, np.minimum(1, alpha * x.astype("f8") + beta)).astype(x.dtype)


def hard_swish(x):
    wide = x.astype("f8")
    return (wide * hard_sigmoid(wide, 1 / 6)).astype(x.dtype)


def prelu(x, slope):
    return np.where(x < 0, slope * x, x).astype(x.dtype)


def softmax(x, axis, logarithm):
    below = x.astype("longdouble")
    if not x.shape[axis]:
        return x
    below = below - below.max(axis=axis, keepdims=True)
    powers = np.exp(below)
    total = powers.sum(axis=axis, keepdims=True)
    return (below - np.log(total) if logarithm else powers / total).astype(x.dtype)


def batch_normalization(x, scale, bias, mean, variance):
    scale, bias, mean, variance = (v.astype("f8").reshape((1, -1) + (1,) * (x.ndim - 2)) for v in (scale, bias, mean, variance))
    return (scale * (x - mean) / np.sqrt(variance + float(np.float32(1e-5))) + bias).astype(x.dtype)


def extreme(x, axes, keepdims, largest, all_axes):
    """NaN where there is one; of nothing the end of the type."""
    if not axes and not all_axes:
        return x
    axes = tuple(a % x.ndim for a in axes) or tuple(range(x.ndim))
    kind = x.dtype.kind
    ends = (False, True) if kind == "b" else (-np.inf, np.inf) if kind == "f" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    function = np.maximum if largest else np.minimum
    return function.reduce(x, axis=axes, keepdims=bool(keepdims), initial=x.dtype.type(ends[0 if largest else 1]))
