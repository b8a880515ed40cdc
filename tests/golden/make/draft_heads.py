# SPDX-License-Identifier: Apache-2.0
"""Heads for drafts, in drafting/NAME: `model` and what its head gives for states of the model. `mtp-*` hold the head in
the model's checkpoint, `eagle3` in a folder `head` beside it, `eagle3-speculators` in the layout of Speculators, for the
model of `eagle3`. No library of the tests has these heads: they are computed here in float64, on a block of LLaMA's, with
lists of numbers alone. Those whose layer a library has are draft_layers.py's.

  python draft_heads.py FOLDER    the folder `golden`
"""
import json
import math
import pathlib
import random
import shutil
import struct
import sys

TOKENS, D, HEADS, KEY_HEADS, INNER, LENGTH, EPSILON, THETA = 40, 16, 2, 1, 12, 6, 1e-6, 10000.0
SIZE = D // HEADS


def single(number):
    """As float32 holds it."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def drawn(source, shape, middle=0.0, deviation=0.3):
    if len(shape) == 1:
        return [single(source.gauss(middle, deviation)) for _ in range(shape[0])]
    return [drawn(source, shape[1:], middle, deviation) for _ in range(shape[0])]


def weights(shapes, seed):
    source = random.Random(seed)
    return {name: drawn(source, shape, 1.0 if "norm" in name else 0.0) for name, shape in shapes.items()}


def block_shapes(begin, width):
    return {begin + name + ".weight": shape for name, shape in {
        "input_layernorm": (D,), "post_attention_layernorm": (D,), "self_attn.q_proj": (HEADS * SIZE, width),
        "self_attn.k_proj": (KEY_HEADS * SIZE, width), "self_attn.v_proj": (KEY_HEADS * SIZE, width),
        "self_attn.o_proj": (D, HEADS * SIZE), "mlp.gate_proj": (INNER, D), "mlp.up_proj": (INNER, D),
        "mlp.down_proj": (D, INNER)}.items()}


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def added(a, b):
    return [[x + y for x, y in zip(first, second)] for first, second in zip(a, b)]


def beside(a, b):
    return [first + second for first, second in zip(a, b)]


class Module:
    """Parts of a head by their names, on rows of numbers."""

    def __init__(self, tensors):
        self.tensors = tensors

    def linear(self, name, rows):
        weight = self.tensors[name + ".weight"]
        return [[dot(row, out) for out in weight] for row in rows]

    def norm(self, name, rows):
        weight = self.tensors[name + ".weight"]
        scales = [1 / math.sqrt(dot(row, row) / len(row) + EPSILON) for row in rows]
        return [[x * scale * w for x, w in zip(row, weight)] for row, scale in zip(rows, scales)]

    def attention(self, begin, rows):
        def heads(name, turns):
            made = [[row[i:i + SIZE] for i in range(0, len(row), SIZE)] for row in self.linear(begin + name, rows)]
            return [[turned(head, place) for head in row] for place, row in enumerate(made)] if turns else made

        def turned(head, place):
            half = SIZE // 2
            angles = [place * THETA ** (-2 * i / SIZE) for i in range(half)]
            first = [head[i] * math.cos(angles[i]) - head[i + half] * math.sin(angles[i]) for i in range(half)]
            return first + [head[i + half] * math.cos(angles[i]) + head[i] * math.sin(angles[i]) for i in range(half)]

        q, k, v = heads("self_attn.q_proj", True), heads("self_attn.k_proj", True), heads("self_attn.v_proj", False)
        mixed = []
        for place, row in enumerate(q):
            mixed.append([])
            for number, head in enumerate(row):
                of = number // (HEADS // KEY_HEADS)
                scores = [dot(head, k[other][of]) / math.sqrt(SIZE) for other in range(place + 1)]
                shares = [math.exp(score - max(scores)) for score in scores]
                mixed[-1] += [dot(shares, [v[other][of][i] for other in range(place + 1)]) / math.fsum(shares)
                              for i in range(SIZE)]
        return self.linear(begin + "self_attn.o_proj", mixed)

    def fed(self, begin, rows):
        read = self.norm(begin + "post_attention_layernorm", rows)
        gates, ups = self.linear(begin + "mlp.gate_proj", read), self.linear(begin + "mlp.up_proj", read)
        inner = [[g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)] for gate, up in zip(gates, ups)]
        return added(rows, self.linear(begin + "mlp.down_proj", inner))


# ---- files


def flat(values):
    return [number for each in values for number in flat(each)] if isinstance(values, list) else [values]


def shape_of(values):
    return [len(values)] + shape_of(values[0]) if isinstance(values, list) else []


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    whole = {name: isinstance(flat(values)[0], int) for name, values in tensors.items()}
    for name, values in sorted(tensors.items(), key=lambda item: (not whole[item[0]], item[0])):
        numbers = flat(values)
        made = struct.pack(f"<{len(numbers)}{'q' if whole[name] else 'f'}", *numbers)
        header[name] = {"dtype": "I64" if whole[name] else "F32", "shape": shape_of(values),
                        "data_offsets": [len(data), len(data) + len(made)]}
        data += made
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def save(folder, config, tensors):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write(folder / "model.safetensors", tensors)


def save_case(folder, ids, states, first, second):
    write(folder / "case.safetensors",
          {"ids": [ids], "positions": [list(range(LENGTH))], "states": [states], "logits": first[0], "own": first[1],
           "next_logits": second[0], "next_own": second[1]})


def given(width):
    source = random.Random(3)
    return [source.randrange(TOKENS) for _ in range(LENGTH)], drawn(source, (LENGTH, width), deviation=1)


def rounded(rows):
    return [[single(number) for number in row] for row in rows]


# ---- cases


def model_of(layers):
    shapes = {"model.embed_tokens.weight": (TOKENS, D), "lm_head.weight": (TOKENS, D), "model.norm.weight": (D,)}
    for layer in range(layers):
        shapes |= block_shapes(f"model.layers.{layer}.", D)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": TOKENS, "hidden_size": D,
              "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS,
              "intermediate_size": INNER, "max_position_embeddings": 64, "rms_norm_eps": EPSILON, "rope_theta": THETA,
              "hidden_act": "silu", "tie_word_embeddings": False}
    return config, weights(shapes, 1)


LAYER = ("model_type", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
         "max_position_embeddings", "rms_norm_eps", "rope_theta", "hidden_act", "tie_word_embeddings")


def eagle3(folder, begin="midlayer.", norms=False):
    """`norms`: of the model's states together, of what attention adds to, and of what its next pass reads."""
    config, model = model_of(6)
    rows = 24
    shapes = block_shapes(begin, 2 * D) | {
        "fc.weight": (D, 3 * D), begin + "hidden_norm.weight": (D,), "norm.weight": (D,), "lm_head.weight": (rows, D)}
    if norms:
        shapes |= {"input_norm.weight": (3 * D,), "embed_tokens.weight": (TOKENS, D)}
    tensors = weights(shapes, 7 if norms else 2)
    head = Module(tensors)
    ids, states = given(3 * D)
    table = tensors["embed_tokens.weight"] if norms else model["model.embed_tokens.weight"]
    embedded = [table[token] for token in ids]

    def run(h):
        normed = head.norm(begin + "hidden_norm", h)
        x = beside(head.norm(begin + "input_layernorm", embedded), normed)
        made = head.fed(begin, added(normed if norms else h, head.attention(begin, x)))
        out = head.norm("norm", made)
        return head.linear("lm_head", out), out if norms else made

    first = run(head.linear("fc", head.norm("input_norm", states) if norms else states))
    chosen = sorted(random.Random(4).sample(range(TOKENS), rows))
    layer = {name: config[name] for name in LAYER} | {"num_hidden_layers": 1}
    own = layer | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": rows}
    if norms:
        own = {"architectures": ["Eagle3DraftModel"], "speculators_model_type": "eagle3", "speculators_version": "0.5.0",
               "draft_vocab_size": rows, "norm_before_residual": True, "norm_before_fc": True, "norm_output": True,
               "fc_norm": False, "target_hidden_size": None, "eagle_aux_hidden_state_layer_ids": [1, 3, 5],
               "tie_word_embeddings": False, "speculators_config": {"algorithm": "eagle3"},
               "transformer_layer_config": layer}
    else:
        save(folder / "model", config, model)
    offsets = {"d2t": [token - row for row, token in enumerate(chosen)]}
    if norms:
        offsets["t2d"] = [int(token in chosen) for token in range(TOKENS)]
    save(folder / "head", own, tensors | offsets)
    save_case(folder, ids, states, first, run(rounded(first[1])))


def multi_token(folder, begin, block, names, hides_first):
    config, model = model_of(2)
    tensors = weights(block_shapes(begin + block, D) |
                      {begin + name + ".weight": (D, 2 * D) if part == "joins" else (D,)
                       for part, name in names.items()}, 5)
    save(folder / "model", config, model | tensors)
    head = Module(model | tensors)
    ids, states = given(D)

    def run(h):
        e = [model["model.embed_tokens.weight"][token] for token in ids]
        if hides_first:
            e[0] = [0.0] * D
        x = head.linear(begin + names["joins"], beside(head.norm(begin + names["tokens"], e),
                                                       head.norm(begin + names["states"], h)))
        seen = added(x, head.attention(begin + block, head.norm(begin + block + "input_layernorm", x)))
        made = head.norm(begin + names["final"], head.fed(begin + block, seen))
        return head.linear("lm_head", made), made

    first = run(states)
    save_case(folder, ids, states, first, run(rounded(first[1])))


def make(out):
    root = out / "drafting"
    shutil.rmtree(root, ignore_errors=True)
    eagle3(root / "eagle3")
    eagle3(root / "eagle3-speculators", "layers.0.", True)
    multi_token(root / "mtp-behind", "model.layers.2.", "", {
        "tokens": "enorm", "states": "hnorm", "joins": "eh_proj", "final": "shared_head.norm"}, True)
    multi_token(root / "mtp-beside", "mtp.", "layers.0.", {
        "tokens": "pre_fc_norm_embedding", "states": "pre_fc_norm_hidden", "joins": "fc", "final": "norm"}, False)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
