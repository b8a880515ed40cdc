# SPDX-License-Identifier: Apache-2.0
"""Heads of multi-token prediction whose layer is one of a library's, in drafting/NAME, as draft_heads.py keeps them: the
layer behind the last one of a model of Transformers, in float64. What joins it to the model is computed here."""

import copy
import json

import torch
import transformers
from safetensors.torch import load_file, save_file

import common

TOKENS, D, LENGTH = 40, 16, 6
COMMON = dict(
    vocab_size=TOKENS, hidden_size=D, intermediate_size=12, num_attention_heads=2, max_position_embeddings=64,
    moe_intermediate_size=6, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None,
)  # fmt: skip
LATENT = dict(
    num_hidden_layers=1, num_key_value_heads=2, first_k_dense_replace=0, q_lora_rank=6, kv_lora_rank=6, qk_nope_head_dim=4,
    qk_rope_head_dim=4, v_head_dim=5, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2, n_shared_experts=1,
)  # fmt: skip
GLM = dict(
    num_hidden_layers=2, num_key_value_heads=1, first_k_dense_replace=1, head_dim=8, n_routed_experts=4, n_group=1,
    topk_group=1, num_experts_per_tok=2, n_shared_experts=1,
)  # fmt: skip
DELTA = dict(
    num_hidden_layers=2, num_key_value_heads=1, head_dim=8, layer_types=["linear_attention", "full_attention"],
    linear_key_head_dim=4, linear_value_head_dim=4, linear_num_key_heads=1, linear_num_value_heads=2, num_experts=4,
    num_experts_per_tok=2, shared_expert_intermediate_size=6,
)  # fmt: skip
BEHIND = {"tokens": "enorm", "states": "hnorm", "joins": "eh_proj", "final": "shared_head.norm"}
BESIDE = {"tokens": "pre_fc_norm_embedding", "states": "pre_fc_norm_hidden", "joins": "fc", "final": "norm"}


def drawn_values(model, generator):
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            value.normal_(generator=generator).mul_(0.3)
            if "norm" in name and not isinstance(model, transformers.Qwen3NextForCausalLM):
                value.add_(1)


def save_model(folder, whole, config, begin, own):
    """The first layers as the model, the last one under `begin`, with the parts around it."""
    whole.save_pretrained(folder)
    last = f"model.layers.{config.num_hidden_layers}."
    tensors = {name.replace(last, begin): value for name, value in load_file(folder / "model.safetensors").items()}
    save_file({name: value.contiguous() for name, value in (tensors | own).items()}, folder / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    (folder / "generation_config.json").unlink(missing_ok=True)
    config.architectures = whole.config.architectures
    config.save_pretrained(folder)
    kept = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


def run(whole, layer, norms, joins, scores, ids, states, hides_first):
    embedded = whole.model.embed_tokens(ids)
    if hides_first:
        embedded[:, 0] = 0
    x = torch.cat([norms["tokens"](embedded), norms["states"](states)], -1) @ joins.T
    positions = torch.arange(LENGTH)[None]
    mask = torch.full((LENGTH, LENGTH), float("-inf"), dtype=x.dtype).triu(1)[None, None]
    made = layer(x, attention_mask=mask, position_ids=positions, position_embeddings=whole.model.rotary_emb(x, positions))
    made = norms["final"](made[0] if isinstance(made, tuple) else made)
    return (made @ scores.T)[0], made[0]


def make_case(folder, kind, fields, begin, block, names, own_scores):
    config = transformers.AutoConfig.for_model(kind, **COMMON, **fields)
    larger = copy.deepcopy(config)
    larger.num_hidden_layers += 1
    if getattr(larger, "layer_types", None):
        larger.layer_types = [*config.layer_types, "full_attention"]
    larger._attn_implementation = larger._experts_implementation = "eager"
    generator = common.generator(folder.name)
    whole = transformers.AutoModelForCausalLM.from_config(larger).eval()
    drawn_values(whole, generator)
    centre = 0 if kind.startswith("qwen") else 1
    own = {begin + name + ".weight": torch.empty(D, 2 * D) if part == "joins" else torch.empty(D) for part, name in names.items()}
    if own_scores:
        own[begin + own_scores + ".weight"] = torch.empty(TOKENS, D)
    for value in own.values():
        value.normal_(generator=generator).mul_(0.3).add_(centre if value.dim() == 1 else 0)
    ids = torch.randint(TOKENS, (1, LENGTH), generator=generator)
    states = torch.empty(1, LENGTH, D).normal_(generator=generator)
    save_model(folder / "model", whole, config, begin + block, own)
    whole = whole.double()
    norms = {}
    for part in ("tokens", "states", "final"):
        norms[part] = copy.deepcopy(whole.model.norm)
        norms[part].weight.data = own[begin + names[part] + ".weight"].double()
    joins = own[begin + names["joins"] + ".weight"].double()
    scores = own[begin + own_scores + ".weight"].double() if own_scores else whole.lm_head.weight
    layer = whole.model.layers[config.num_hidden_layers]
    with torch.no_grad():
        first = run(whole, layer, norms, joins, scores, ids, states.double(), bool(own_scores))
        second = run(whole, layer, norms, joins, scores, ids, first[1].float().double()[None], bool(own_scores))
    tensors = dict(logits=first[0], own=first[1], next_logits=second[0], next_own=second[1], states=states)
    save_file({name: value.float().contiguous() for name, value in tensors.items()}
              | {"ids": ids, "positions": torch.arange(LENGTH)[None]}, folder / "case.safetensors")  # fmt: skip


def make(root):
    make_case(root / "mtp-deepseek-v3", "deepseek_v3", LATENT, "model.layers.1.", "", BEHIND, "shared_head.head")
    make_case(root / "mtp-glm4-moe", "glm4_moe", GLM, "model.layers.2.", "", BEHIND, "shared_head.head")
    make_case(root / "mtp-qwen3-next", "qwen3_next", DELTA, "mtp.", "layers.0.", BESIDE, "")
