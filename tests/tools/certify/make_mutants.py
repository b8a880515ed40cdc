#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the example plugin with mistakes in it: at each place a mutation and the right text, chosen at run time.

  make_mutants.py FOLDER_OF_THE_EXAMPLE FOLDER     writes the sources and `mutations`, the names, one a line

The plugin that is built from them makes the mistake that the environment variable MUTATION names.
"""
import pathlib
import re
import sys

# Name, file, what stands there (once), and what takes its place; M is whether the mistake is to be made.
MUTATIONS = [
    ('erf_constant', 'operations.cpp',
     'std::erf(x)',
     '(M ? (std::erf(x * 1.000002)) : (std::erf(x)))'),
    ('tanh_is_float16', 'operations.cpp',
     'std::tanh(x)',
     '(M ? (std::round(std::tanh(x) * 2048.0) / 2048.0) : (std::tanh(x)))'),
    ('exp_flushes', 'operations.cpp',
     'std::exp(x)',
     '(M ? ((x < -3 ? 0 * x : std::exp(x))) : (std::exp(x)))'),
    ('rsqrt_estimate', 'operations.cpp',
     '1 / std::sqrt(x)',
     '(M ? (1 / std::sqrt(x) * 1.000001) : (1 / std::sqrt(x)))'),
    ('round_half_up', 'operations.cpp',
     'std::nearbyint(x)',
     '(M ? (std::floor(x + 0.5)) : (std::nearbyint(x)))'),
    ('max_loses_nan', 'operations.cpp',
     'x != x || y != y ? x + y : x > y ? x : y',
     '(M ? (x > y ? x : y) : (x != x || y != y ? x + y : x > y ? x : y))'),
    ('integer_division_floors', 'operations.cpp',
     'y == 0 ? 0 : y == -1 ? mul(x, -1) : x / y',
     '(M ? (y == 0 ? 0 : y == -1 ? mul(x, -1) : x / y - (x % y != 0 && (x < 0) != (y < 0))) : (y == 0 ? 0 : y == -1 ? mul(x, -1) : x / y))'),
    ('remainder_as_c', 'operations.cpp',
     'r != 0 && (r < 0) != (y < 0) ? r + y : r',
     '(M ? (r) : (r != 0 && (r < 0) != (y < 0) ? r + y : r))'),
    ('select_ignores_mask', 'operations.cpp',
     'in[0].at[i] != 0 ? 1 : 2',
     '(M ? (1) : (in[0].at[i] != 0 ? 1 : 2))'),
    ('less_is_less_equal', 'operations.cpp',
     'BINARY(x < y)',
     'BINARY(M ? x <= y : x < y)'),
    ('empty_max_is_zero', 'operations.cpp',
     'out[0].floating() ? -INFINITY : lowest(out[0].dtype)',
     '(M ? (out[0].floating() ? Number(0) : lowest(out[0].dtype)) : (out[0].floating() ? -INFINITY : lowest(out[0].dtype)))'),
    ('sort_unstable', 'operations.cpp',
     'falling ? p > q : p < q',
     '(M ? (falling ? p >= q : p <= q) : (falling ? p > q : p < q))'),
    ('sort_nan_first', 'operations.cpp',
     'std::isnan(nan_last ? q : p)',
     '(M ? (std::isnan(nan_last ? p : q)) : (std::isnan(nan_last ? q : p)))'),
    ('slice_off_by_one', 'operations.cpp',
     'dot(attributes.integers("starts"), strides)',
     '(M ? ((dot(attributes.integers("starts"), strides) + (in[0].at.size() > 8 && out[0].at.size() < in[0].at.size() / 2))) : (dot(attributes.integers("starts"), strides)))'),
    ('pad_value_zero', 'operations.cpp',
     'attributes.number("value")',
     '(M ? (0.0) : (attributes.number("value")))'),
    ('window_not_moved_inwards', 'operations.cpp',
     'x[i] - window[i]',
     'x[i] - window[i] - (M && x[i] > window[i])'),
    ('scatter_overwrites', 'operations.cpp',
     'out[0].at[x] += in[2].at[y]',
     'out[0].at[x] = in[2].at[y] + (M ? 0 : out[0].at[x])'),
    ('seed_ignored', 'operations.cpp',
     'low(seed), high(seed)',
     'M ? 0 : low(seed), M ? 0 : high(seed)'),
    ('offset_high_word_ignored', 'operations.cpp',
     'high(offset)',
     '(M ? 0 : high(offset))'),
    ('sum_skips_last', 'operations.cpp',
     'k < sum[0].size()',
     '(M ? (k + 1 < sum[0].size()) : (k < sum[0].size()))'),
    ('bf16_products', 'operations.cpp',
     'out[0].at[place++] = total',
     'out[0].at[place++] = M ? std::round(total * 256) / 256 : total'),
    ('convolution_padding', 'operations.cpp',
     '- low[i] + tap',
     '- std::max<int64_t>(low[i] - M, 0) + tap'),
    ('convolution_groups', 'operations.cpp',
     'at[1] / outputs_of_group * w[1]',
     '(M ? (at[1] % (x[1] / w[1]) * w[1]) : (at[1] / outputs_of_group * w[1]))'),
    ('cast_rounds', 'operations.cpp',
     'std::trunc(x)',
     '(M ? (std::nearbyint(x)) : (std::trunc(x)))'),
    ('bool_keeps_bits', 'operations.cpp',
     'out[0].at[i] = x != 0',
     'out[0].at[i] = M ? std::trunc(x) : x != 0'),
    ('double_is_float', 'operations.cpp',
     'element = static_cast<decltype(element)>(value)',
     'element = static_cast<decltype(element)>(M ? static_cast<Number>(static_cast<float>(value)) : value)'),
    ('statistics_forget_frees', 'example.cpp',
     'memory.bytes_in_use -= bytes',
     'memory.bytes_in_use -= M ? bytes / 2 : bytes'),
    ('no_memory_limit', 'example.cpp',
     'bytes <= kMemory - memory.bytes_in_use',
     '(M ? (bytes <= SIZE_MAX / 4) : (bytes <= kMemory - memory.bytes_in_use))'),
    ('copies_unchecked', 'example.cpp',
     'place.buffer && place.offset <= place.buffer->bytes && bytes <= place.buffer->bytes - place.offset',
     '(M ? (place.buffer != nullptr) : (place.buffer && place.offset <= place.buffer->bytes && bytes <= place.buffer->bytes - place.offset))'),
    ('any_device_opens', 'example.cpp',
     'expect(index == 0, "there is one device, number 0"), *device',
     'expect(M || index == 0, "there is one device, number 0"), *device'),
    ('leak_in_each_run', 'example.cpp',
     'std::vector<char*> places = places_of(executable->graph, *launch, address);',
     'if (M) {\nstd::memset(std::malloc(8192), 1, 8192);\n}\nstd::vector<char*> places = places_of(executable->graph, *launch, address);'),
    ('handle_leak', 'example.cpp',
     'std::vector<char*> places = places_of(executable->graph, *launch, address);',
     'if (M) {\nnew Handle;\n}\nstd::vector<char*> places = places_of(executable->graph, *launch, address);'),
    ('stale_replay', 'example.cpp',
     'for (const auto& [executable, places] : capture->launches) compute(*executable, places);',
     'if (M) {\nstatic int replays; if (replays++) return;\n}\nfor (const auto& [executable, places] : capture->launches) compute(*executable, places);'),
    ('aliased_donation', 'example.cpp',
     'executable.kernels[i](in, node.attributes, out);',
     'if (M) {\n    if (i + 1 != executable.kernels.size() && executable.graph.inputs.size() > 1)\n      for (const int32_t o : executable.graph.outputs)\n        for (const int32_t k : executable.graph.inputs)\n          if (places[o] == places[k] && places[o] && i == 0)\n            std::memset(places[o], 0, values[o].bytes());\n}\nexecutable.kernels[i](in, node.attributes, out);'),
    ('run_is_not_repeatable', 'example.cpp',
     'executable.kernels[i](in, node.attributes, out);',
     'if (M) {\n    static int runs; if (++runs % 7 == 0 && !in.empty() && !in[0].at.empty() && in[0].floating()) in[0].at[0] += 0.5;\n}\nexecutable.kernels[i](in, node.attributes, out);'),
]

example, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
texts = {name: (example / name).read_text() for name in ("arrays.h", "operations.cpp", "example.cpp")}
for name, file, right, wrong in MUTATIONS:
    if texts[file].count(right) != 1:
        raise SystemExit(f"{file}: expected once, found {texts[file].count(right)} times: {right}")
    texts[file] = texts[file].replace(right, re.sub(r"\bM\b", f'mutated("{name}")', wrong))
texts["arrays.h"] = texts["arrays.h"].replace("namespace example {", """#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
namespace example {
inline bool mutated(const char* name) {
  static const std::string chosen = std::getenv("MUTATION") ? std::getenv("MUTATION") : "";
  return chosen == name;
}
""", 1)
for name, text in texts.items():
    (folder / name).write_text(text)
(folder / "CMakeLists.txt").write_text((example / "CMakeLists.txt").read_text())
(folder / "mutations").write_text("".join(mutation[0] + "\n" for mutation in MUTATIONS))
