# SPDX-License-Identifier: Apache-2.0
"""Tensors of random numbers, kept as the place of the generator where they were drawn; masks as runs of equal values.

Weights and pictures of the cases are what torch.Tensor.normal_() draws from a generator whose seed belongs to the name of
the case, times a deviation. For such a tensor of `model.safetensors` the file `model.safetensors.drawn.json` says seed,
place and deviation, and model.safetensors keeps what is left: it may be gone. Nothing has to say how a file was made: the
place is found by comparing, and is kept only where every bit comes out again. The build writes the whole files
(tests/support/whole_golden), by the same steps: normal_numbers() is what PyTorch does with AVX2.
"""

import json
import math

import numpy

import tensor_files
from seeds import seed_of

SMALLEST = 64  # elements of a tensor that is worth it
FLOATS, WHOLE = ("F32", "F16", "BF16"), ("I64", "I32", "U8", "BOOL")
ENDING = ".drawn.json"
f32 = numpy.float32


# ---- what torch.Tensor.normal_() of 16 elements or more draws


def uniform_numbers(seed, count):
    bits = numpy.random.RandomState(seed)._bit_generator.random_raw(count)
    return ((bits & 0xFFFFFF).astype(f32) * f32(2.0**-24)).astype(f32)


def fused(a, b, c):
    """a * b + c, rounded once (in float64 first, which is as good in all but one of hundreds of millions)."""
    return (a.astype(numpy.float64) * b + c).astype(f32)


def logarithm(x):
    """Of numbers in (0, 1], as Cephes' logf computes it, compiled with fused multiplications."""
    mantissa, exponent = numpy.frexp(x)
    mantissa, exponent = mantissa.astype(f32), exponent.astype(f32)
    small = mantissa < f32(0.707106781186547524)
    exponent = exponent - small.astype(f32)
    x = (mantissa - f32(1)) + numpy.where(small, mantissa, f32(0))
    square = x * x
    y = numpy.full_like(x, f32(7.0376836292e-2))
    for term in (-1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
                 -2.4999993993e-1, 3.3333331174e-1):  # fmt: skip
        y = fused(y, x, f32(term))
    y = fused(y * x, square, exponent * f32(-2.12194440e-4))
    y = y - square * f32(0.5)
    return (x + y) + exponent * f32(0.693359375)


def cosine_and_sine(x):
    """Of numbers in [0, 2 pi], as Cephes' sincosf computes them, compiled with fused multiplications."""
    octant = (x * f32(1.27323954473516)).astype(numpy.int32)
    octant = (octant + 1) & ~numpy.int32(1)
    y = octant.astype(f32)
    x = x + y * f32(-0.78515625)
    x = x + y * f32(-2.4187564849853515625e-4)
    x = fused(y, f32(-3.77489497744594108e-8), x)
    z = x * x
    cosine = fused(fused(z, f32(2.443315711809948e-5), f32(-1.388731625493765e-3)), z, f32(4.166664568298827e-2))
    cosine = fused(cosine * z, z, -(z * f32(0.5))) + f32(1)
    sine = fused(fused(z, f32(-1.9515295891e-4), f32(8.3321608736e-3)), z, f32(-1.6666654611e-1))
    sine = fused(sine * z, x, x)
    swapped = (octant & 2) != 0
    a, b = numpy.where(swapped, sine, cosine), numpy.where(swapped, cosine, sine)
    return numpy.where((octant - 2) & 4, a, -a), numpy.where(octant & 4, -b, b)


def pairs_of(uniform):
    """Of each place the two numbers that it and the place 8 behind it give: [place] and [place + 8] of a block of 16."""
    radius = numpy.sqrt(f32(-2) * logarithm(f32(1) - uniform[:-8]))
    cosine, sine = cosine_and_sine(f32(2 * math.pi) * uniform[8:])
    return radius * cosine, radius * sine


def normal_numbers(pairs, place, count):
    """`count` numbers that normal_() draws from `place` on: blocks of 16; where the last is not full, 16 new ones end it."""
    first, second = pairs
    blocks = [place + 16 * i for i in range(count // 16)]
    at = numpy.array(blocks)[:, None] + numpy.arange(8)
    whole = numpy.concatenate([first[at], second[at]], 1).reshape(-1)
    if count % 16 == 0:
        return whole
    last = place + count
    result = numpy.empty(count, f32)
    result[: whole.size] = whole
    result[-16:] = numpy.concatenate([first[last : last + 8], second[last : last + 8]])
    return result


# ---- finding them


def candidates_of(slope, offset):
    """Deviations and means that makers use near those that were measured: (how it is written, deviation, mean)."""
    mean = round(offset, 1)
    slope = abs(slope)
    for factor in (1.2, 1.0):
        width = round((factor / slope) ** 2)
        if width > 0 and abs(factor / math.sqrt(width) - slope) < 1e-5 * slope:
            yield {"factor": factor, "width": width}, mean
    for digits in (1, 2, 3):
        if abs(round(slope, digits) - slope) < 1e-5 * slope:
            yield {"factor": round(slope, digits), "width": 1}, mean
            break


def scaled(values, rule, mean):
    if rule.get("divided"):
        values = values / f32(math.sqrt(rule["width"]))
    else:
        values = f32(rule["factor"] / math.sqrt(rule["width"])) * values
    return f32(mean) + values if mean else values


def bits_of(kind, values):
    if kind == "F32":
        return values.view(numpy.uint32)
    if kind == "F16":
        return values.astype(numpy.float16).view(numpy.uint16)
    bits = values.view(numpy.uint32).astype(numpy.uint64)  # to the nearest, ties to even
    return ((bits + 0x7FFF + ((bits >> numpy.uint64(16)) & numpy.uint64(1))) >> numpy.uint64(16)).astype(numpy.uint16)


def values_of(kind, bits):
    if kind == "BF16":
        return (bits.astype(numpy.uint32) << numpy.uint32(16)).view(f32)
    return bits.astype(f32)


def run_lengths(flat):
    """Values and how many of each follow: [value, count, value, count ...]."""
    begins = numpy.concatenate([[0], numpy.flatnonzero(flat[1:] != flat[:-1]) + 1, [flat.size]])
    return [int(each) for i in range(len(begins) - 1) for each in (flat[begins[i]], begins[i + 1] - begins[i])]


def zeros_of(kept, made):
    """The elements that were made 0 afterwards (what pads), as [first, count, first, count ...]; None where others differ."""
    different = kept != made
    if (kept[different] != 0).any():
        return None
    zeros, place = [], 0
    runs = run_lengths(different)
    for other, count in zip(runs[::2], runs[1::2]):
        if other:
            zeros += [place, count]
        place += count
    return zeros if len(zeros) < kept.size / 4 else None


def places_of(values, pairs):
    """Where a block of 16 like that at the beginning of `values` is drawn: (place, slope, offset) of the best."""
    blocks = values[: values.size // 16 * 16].reshape(-1, 16)
    skipped = int(numpy.argmax((blocks != 0).all(1)))  # what pads is 0
    block = values[16 * skipped : 16 * skipped + 16].astype(numpy.float64)
    if block.size < 16 or block.std() < 1e-6:
        return None
    first, second = (each.astype(numpy.float64) for each in pairs)
    count = first.size - 7
    sums, squares, products = numpy.zeros(count), numpy.zeros(count), numpy.zeros(count)
    for j in range(8):
        for numbers, value in ((first, block[j]), (second, block[j + 8])):
            part = numbers[j : j + count]
            sums += part
            squares += part * part
            products += part * value
    mean, spread = block.mean(), ((block - block.mean()) ** 2).sum()
    covariance, variance = products - sums * mean, squares - sums * sums / 16
    alike = covariance**2 / numpy.maximum(variance * spread, 1e-30)
    best = int(numpy.argmax(alike))
    if alike[best] < 1 - 1e-5 or best < 16 * skipped:
        return None
    slope = covariance[best] / variance[best]
    return best - 16 * skipped, slope, mean - slope * sums[best] / 16


def rule_of(kind, array, pairs):
    """How a tensor is drawn, or None."""
    flat = array.reshape(-1)
    found = places_of(values_of(kind, flat), pairs)
    if found is None or found[0] + flat.size + 32 > pairs[0].size:
        return None
    place, slope, offset = found
    # Of the middle of a larger draw, whose last block is full, or a draw of its own.
    whole = -(-flat.size // 16) * 16
    numbers = [("", normal_numbers(pairs, place, flat.size))]
    if whole != flat.size:
        numbers.append(("cut", normal_numbers(pairs, place, whole)[: flat.size]))
    kept = flat.view(numpy.uint32 if kind == "F32" else numpy.uint16)
    for cut, drawn in numbers:
        for rule, mean in candidates_of(slope, offset):
            for divided in (False, True) if rule["factor"] == 1.0 and rule["width"] > 1 else (False,):
                rule = rule | ({"divided": True} if divided else {})
                made = bits_of(kind, scaled(drawn, rule, mean))
                zeros = zeros_of(kept, made)
                if zeros is None:
                    continue
                rule = {key: value for key, value in rule.items() if DEFAULTS.get(key) != value}
                result = {"shape": list(array.shape), "at": place} | rule
                for key, value in (("mean", mean), ("zero", zeros), ("cut", bool(cut))):
                    if value:
                        result[key] = value
                return result | ({"dtype": kind} if kind != "F32" else {})
    return None


DEFAULTS = {"factor": 1.2, "width": 1}


def runs_of(kind, array):
    """How a tensor of whole numbers is said by runs of equal ones, or None where that is not much shorter."""
    runs = run_lengths(array.reshape(-1))
    rule = {"shape": list(array.shape), "dtype": kind, "runs": runs}
    return rule if 2 * len(json.dumps(rule, separators=(",", ":"))) < array.nbytes else None


def keep_as_drawn(path, names):
    """Of a file the tensors that one of the generators of `names` drew, and long runs. Whether there were any."""
    tensors, metadata = tensor_files.read(path)
    if tensors is None:
        return False
    large = {name: each for name, each in tensors.items() if each[1].size >= SMALLEST}
    floats = {name: each for name, each in large.items() if each[0] in FLOATS}
    runs = {name: runs_of(*each) for name, each in large.items() if each[0] in WHOLE}
    best = ((*names, "")[0], {})
    numbers = sum(array.size for _, array in floats.values())
    for seed_name in names if floats else ():
        pairs = pairs_of(uniform_numbers(seed_of(seed_name), int(1.5 * numbers) + 20000))
        rules = {name: rule for name, each in floats.items() if (rule := rule_of(*each, pairs)) is not None}
        if len(rules) > len(best[1]):
            best = (seed_name, rules)
        if len(rules) == len(floats):
            break
    seed_name, rules = best
    rules = rules | {name: rule for name, rule in runs.items() if rule}
    if not rules:
        return False
    lines = [f"  {json.dumps(name)}: {json.dumps(rule, separators=(',', ':'))}" for name, rule in sorted(rules.items())]
    text = '{\n "seed": %d,\n' % seed_of(seed_name)
    if metadata:
        text += f' "metadata": {json.dumps(metadata, separators=(",", ":"))},\n'
    text += ' "tensors": {\n' + ",\n".join(lines) + "\n }\n}\n"
    rest = {name: each for name, each in tensors.items() if name not in rules}
    path.with_name(path.name + ENDING).write_text(text)
    if rest:
        tensor_files.write(path, rest)
    else:
        path.unlink()
    return True


def tensors_of(recipe):
    """The tensors that a file says by their places: (type, array) by name."""
    rules, tensors = recipe["tensors"], {}
    last = max(rule.get("at", 0) + math.prod(rule["shape"]) for rule in rules.values())
    pairs = pairs_of(uniform_numbers(recipe["seed"], last + 64))
    for name, rule in rules.items():
        kind, count = rule.get("dtype", "F32"), math.prod(rule["shape"])
        if "runs" in rule:
            flat = numpy.repeat(rule["runs"][::2], rule["runs"][1::2]).astype(tensor_files.TYPES[kind])
        else:
            drawn_count = -(-count // 16) * 16 if rule.get("cut") else count
            numbers = normal_numbers(pairs, rule["at"], drawn_count)[:count]
            values = scaled(numbers, DEFAULTS | rule, rule.get("mean", 0))
            zeros = rule.get("zero", [])
            for first, zero_count in zip(zeros[::2], zeros[1::2]):
                values[first : first + zero_count] = 0
            flat = bits_of(kind, values).view(tensor_files.TYPES[kind])
        tensors[name] = (kind, flat.reshape(rule["shape"]))
    return tensors
