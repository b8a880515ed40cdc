# SPDX-License-Identifier: Apache-2.0
"""Models to compress, and what is expected of them: computed from the dequantised weights in float32, so that the loss
of quantising is in the file."""

import contextlib
import copy
import pathlib
import tempfile

import torch
import transformers
from safetensors.torch import save_file

from common import generator, rounded, seed_of, write_json
from random_models import draw_weights
from vocabularies import load, make_tokenizer_files

ROPE = dict(rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})
SIZES = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
    **ROPE,
)
BODIES = {
    "llama": ("LlamaForCausalLM", "llama", SIZES),
    "qwen2": ("Qwen2ForCausalLM", "qwen2", SIZES),
    "qwen3": ("Qwen3ForCausalLM", "qwen2", SIZES | dict(head_dim=32, tie_word_embeddings=True)),
    "gpt_oss": (
        "GptOssForCausalLM",
        "qwen2",
        SIZES
        | dict(
            hidden_size=32, intermediate_size=32, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8
        ),
    ),
    "gpt2": ("GPT2LMHeadModel", "gpt2", dict(n_embd=64, n_layer=2, n_head=4, n_positions=128)),
}


def build(name, body, **changes):
    class_name, tokenizer, sizes = BODIES[body]
    sizes = copy.deepcopy(sizes | changes)

    with tempfile.TemporaryDirectory() as folder:
        make_tokenizer_files(tokenizer, pathlib.Path(folder))
        words = load(folder)
    ids = {
        f"{kind}_token_id": getattr(words, f"{kind}_token_id")
        for kind in ("pad", "bos", "eos")
        if getattr(words, f"{kind}_token_id") is not None
    }
    config = transformers.AutoConfig.for_model(body, vocab_size=len(words), **ids, **sizes)
    for field in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
        if hasattr(config, field):
            setattr(config, field, 0.0)
    torch.manual_seed(seed_of(name))
    eager = {"attn_implementation": "eager"} | ({"experts_implementation": "eager"} if body == "gpt_oss" else {})
    model = getattr(transformers, class_name)._from_config(config, **eager).eval()
    draw_weights(model, name, True)
    return model, words, tokenizer


def layers_of(model):
    """The products that a checkpoint compresses: those of the blocks."""
    kinds = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)
    return {
        name: module for name, module in model.named_modules() if isinstance(module, kinds) and "lm_head" not in name
    }


# ---- rounded inputs


def rounded_rows(x):
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (x / scale).round() * scale


def rounded_blocks(x):
    return rounded_rows(x.reshape(*x.shape[:-1], -1, 32)).reshape(x.shape)


def rounded_tokens(x):
    """As compressed-tensors does."""
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127.5
    return (x / scale).round().clamp(-128, 127) * scale


def rounded_fp8(x):
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 448
    return (x / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale


@contextlib.contextmanager
def with_inputs(modules, rounding):
    hooks = [module.register_forward_pre_hook(lambda _, given: (rounding(given[0]), *given[1:])) for module in modules]
    yield
    for hook in hooks:
        hook.remove()


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=ids).logits


def continuation(model, prompt, count=16):
    ids, margin = torch.tensor([prompt]), 1e9
    for _ in range(count):
        best = logits_of(model, ids)[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        ids = torch.cat([ids, best.indices[:1].view(1, 1)], 1)
    return ids[0].tolist(), margin


def write_expected(folder, name, model, compressed, about, tokens=False):
    random = generator("inputs of " + name)
    vocabulary = model.config.vocab_size
    ids = torch.randint(5, vocabulary - 5, (2, 12), generator=random)
    save_file({"input_ids": ids}, folder / "inputs.safetensors")
    exact = logits_of(model, ids)
    expected, largest, relative, spread = {"logits": exact}, float(exact.abs().max()), {}, {}
    for title, rounding in (
        ("rows", rounded_rows),
        ("blocks of 32", rounded_blocks),
        ("fp8 activations, rows", rounded_fp8),
    ):
        with with_inputs(compressed, rounding):
            other = logits_of(model, ids)
        key = title if title.startswith("fp8") else f"int8 activations, {title}"
        relative[key] = float((other - exact).abs().max()) / largest
        if not title.startswith("fp8"):
            spread[title] = float((other - exact).norm() / exact.norm())
    if tokens:
        with with_inputs(compressed, rounded_tokens):
            expected["logits_with_quantized_activations"] = logits_of(model, ids)
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")
    runs = []
    for _ in range(200):
        prompt = torch.randint(5, vocabulary - 5, (4,), generator=random).tolist()
        sequence, margin = continuation(model, prompt)
        if margin < 3e-3 * largest:  # the last bits would decide
            continue
        same = []
        for rounding in (rounded_rows, rounded_blocks, rounded_tokens):
            with with_inputs(compressed, rounding):
                other, other_margin = continuation(model, prompt)
            same.append(other == sequence and other_margin > 3e-3 * largest)
        runs.append(
            {
                "prompt": prompt,
                "sequence": sequence,
                "new_tokens": 16,
                "least_margin_of_the_best_logit": rounded(margin, 5),
                "same_with_int8_activations": all(same),
            }
        )
        if len(runs) >= 2 and any(run["same_with_int8_activations"] for run in runs):
            break
    write_json(folder / "generate.json", {"runs": runs[-2:]})
    int8 = max(value for key, value in relative.items() if key.startswith("int8"))
    about |= {
        "name": name,
        "class": type(model).__name__,
        "seed": seed_of(name),
        "largest_logit": largest,
        "relative_deviation_of_the_largest_logit": rounded(relative),
        "relative_rms_deviation_with_int8_activations": rounded(spread),
        "tolerance": {
            "float32 arithmetic": {"atol": rounded(2e-5 * largest), "rtol": 1e-4},
            "int8 activations": {"atol": rounded(2.5 * int8 * largest), "rtol": 0.0},
        },
    }
    write_json(folder / "case.json", about)
