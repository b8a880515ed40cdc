# SPDX-License-Identifier: Apache-2.0
"""Large tensors of what a model gives, kept as a sample of their elements and sums over all of them.

A tensor `name` of shape (4, 96) is stored as `name [4,96]`: its sampled elements, its Euclidean norm, and three sums of all
elements, each with signs of its own. Samples are spread over the whole tensor, each at a place that a hash chooses in its
part. A wrong element that is not sampled changes the sums, and so does a tensor that is transposed, turned round or has
rows in another order, which would leave a plain sum and the norm as they are: signs depend on the place alone.
partners/common/testing/sampled_values.h reads it.
"""

import numpy

import tensor_files

FILES = ("expected.safetensors", "grads.safetensors", "processed.safetensors")
SUMS = 3
GRADIENTS, OUTPUTS = 12, 60  # samples of a tensor
OTHERS = {
    "image/*/expected.safetensors": OUTPUTS,
    "*/processed.safetensors": OUTPUTS,
    "audio/expected.safetensors": OUTPUTS,
    "diffusion/networks/*/expected.safetensors": OUTPUTS,
    "quantized/*/expected.safetensors": 480,  # of which the error by the values is measured
}
WORTH = 2  # tensors of so many times what would be kept are sampled
LARGEST = 1e20  # beyond, sums in float32 say nothing


def mixed(numbers):
    """The output function of splitmix64, of a uint64 array."""
    with numpy.errstate(over="ignore"):
        x = numbers + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))


def places_of(samples, size):
    each = numpy.arange(samples, dtype=numpy.uint64)
    begin, end = (each * numpy.uint64(size) // numpy.uint64(samples) for each in (each, each + numpy.uint64(1)))
    return (begin + mixed(numpy.arange(samples, dtype=numpy.uint64)) % (end - begin)).astype(numpy.int64)


def sample_of(array, samples):
    values = array.reshape(-1).astype(numpy.float64)
    bits = mixed(numpy.arange(values.size, dtype=numpy.uint64))
    sums = [numpy.sqrt((values * values).sum())]
    for k in range(SUMS):
        sums.append(numpy.where((bits >> numpy.uint64(k)) & numpy.uint64(1), -values, values).sum())
    return numpy.concatenate([values[places_of(samples, values.size)], sums]).astype(numpy.float32)


def without_padding(array, mask):
    """Rows of (batch, position) that do not count are 0."""
    if mask is None or mask.ndim != 2 or array.ndim < 2 or array.shape[:2] != mask.shape:
        return array
    return numpy.where(mask.reshape(mask.shape + (1,) * (array.ndim - 2)) != 0, array, numpy.float32(0))


def sampled(tensors, samples, mask=None):
    """(type, array) by name, the large ones as their samples."""
    result = {}
    for name, (kind, array) in tensors.items():
        counted = without_padding(array, mask)
        if (
            kind == "F32"
            and " [" not in name
            and array.size > WORTH * (samples + 1 + SUMS)
            and numpy.abs(counted).max() < LARGEST  # not where one is NaN
        ):
            name = f"{name} [{','.join(map(str, array.shape))}]"
            array = sample_of(counted, samples)
        result[name] = (kind, array)
    return result


def sample_file(path, samples, mask=None):
    """Whether it became smaller."""
    tensors, metadata = tensor_files.read(path)
    if tensors is None:
        return False
    smaller = sampled(tensors, samples, mask)
    if smaller.keys() == tensors.keys():
        return False
    tensor_files.write(path, smaller, metadata)
    return True


def sample_case(folder):
    """Outputs and gradients of a model's case. Those of its inputs have to be there still."""
    mask = None
    if (folder / "inputs.safetensors").exists():
        inputs, _ = tensor_files.read(folder / "inputs.safetensors")
        mask = inputs["attention_mask"][1] if inputs and "attention_mask" in inputs else None
    for name, samples in (("grads.safetensors", GRADIENTS), ("expected.safetensors", OUTPUTS)):
        if (folder / name).exists():
            sample_file(folder / name, samples, mask if name == "expected.safetensors" else None)


def sample_tree(golden):
    """All cases of models, which are folders whose case.json has tolerances, and what processors and networks give."""
    for about in sorted(golden.glob("*/case.json")):
        if '"tolerance"' in about.read_text():
            sample_case(about.parent)
    for pattern, samples in OTHERS.items():
        for path in sorted(golden.glob(pattern)):
            sample_file(path, samples)
