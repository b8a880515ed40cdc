# SPDX-License-Identifier: Apache-2.0
"""Heads for drafts, in drafting/NAME: `model` and what its head gives for states of the model, made of modules of
Transformers. `mtp-*` hold the head in the model's checkpoint, `eagle3` in a folder `head` beside it.

  python draft_heads.py FOLDER    the folder `golden`
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

TOKENS, WIDTH, LENGTH = 40, 16, 6


def randomised(module, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
            if "norm" in name and not name.endswith("bias"):
                parameter.add_(1)
    return module.eval()


def mask(length):
    return torch.full((length, length), float("-inf")).triu(1)[None, None]


def through(layer, rotary, x):
    places = torch.arange(x.shape[1])[None]
    made = layer(x, attention_mask=mask(x.shape[1]), position_ids=places, position_embeddings=rotary(x, places))
    return made[0] if isinstance(made, tuple) else made


def given(width, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(0, TOKENS, (1, LENGTH), generator=generator),
            torch.randn(1, LENGTH, width, generator=generator))


def save_case(folder, model, extra, renamed, ids, states, first, second):
    """`first` and `second`: logits and states of the pass over the model's states, and over the head's own."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder / "model")
    path = folder / "model" / "model.safetensors"
    tensors = {renamed(name): tensor for name, tensor in load_file(path).items()} | extra
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt"})
    save_file({"ids": ids, "positions": torch.arange(LENGTH)[None], "states": states, "logits": first[0],
               "own": first[1], "next_logits": second[0], "next_own": second[1]}, folder / "case.safetensors")


def eagle3(folder):
    config = transformers.LlamaConfig(vocab_size=TOKENS, hidden_size=WIDTH, num_hidden_layers=6, num_attention_heads=2,
                                      num_key_value_heads=1, intermediate_size=12, max_position_embeddings=64)
    model = randomised(transformers.LlamaForCausalLM(config), 1)
    rows, D = 24, WIDTH
    layer = model.model.layers[0].__class__(config, 0)
    attention = layer.self_attn
    for name in ("q_proj", "k_proj", "v_proj"):
        setattr(attention, name, torch.nn.Linear(2 * D, getattr(attention, name).out_features, bias=False))
    head = torch.nn.Module()
    head.fc = torch.nn.Linear(3 * D, D, bias=False)
    head.midlayer = layer
    head.midlayer.hidden_norm = type(model.model.norm)(D, config.rms_norm_eps)
    head.norm = type(model.model.norm)(D, config.rms_norm_eps)
    head.lm_head = torch.nn.Linear(D, rows, bias=False)
    randomised(head, 2)
    ids, states = given(3 * D, 3)

    def run(h):
        x = torch.cat([layer.input_layernorm(model.model.embed_tokens(ids)), layer.hidden_norm(h)], -1)
        places = torch.arange(LENGTH)[None]
        seen = attention(x, attention_mask=mask(LENGTH), position_embeddings=model.model.rotary_emb(x, places))[0]
        made = h + seen
        made = made + layer.mlp(layer.post_attention_layernorm(made))
        return head.lm_head(head.norm(made))[0], made[0]

    with torch.no_grad():
        first = run(head.fc(states))
        second = run(first[1][None])
    save_case(folder, model, {}, lambda name: name, ids, states, first, second)
    chosen = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(4))[:rows].sort().values
    tensors = {name: tensor.contiguous() for name, tensor in head.state_dict().items()}
    tensors["d2t"] = chosen - torch.arange(rows)
    tensors["t2d"] = torch.zeros(TOKENS, dtype=torch.bool).index_fill(0, chosen, True)
    (folder / "head").mkdir()
    save_file(tensors, folder / "head" / "model.safetensors", {"format": "pt"})
    own = {name: config.to_dict()[name] for name in
           ("hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
            "max_position_embeddings", "rms_norm_eps", "hidden_act", "head_dim")}
    own |= {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1,
            "draft_vocab_size": rows, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float32"}
    (folder / "head" / "config.json").write_text(json.dumps(own, indent=2) + "\n")


def multi_token(folder, kind, config, names, hides_first):
    """`config` has one layer more than the model, which is the head's."""
    layers = config.num_hidden_layers - 1
    model = randomised(kind(config), 5)
    norm = type(model.model.norm)
    eps = config.rms_norm_eps
    extra = {"tokens": norm(WIDTH, eps), "states": norm(WIDTH, eps), "final": norm(WIDTH, eps),
             "joins": torch.nn.Linear(2 * WIDTH, WIDTH, bias=False)}
    for seed, module in enumerate(extra.values()):
        randomised(module, 6 + seed)
    ids, states = given(WIDTH, 10)
    block = model.model.layers[layers]

    def run(h):
        e = model.model.embed_tokens(ids)
        if hides_first:
            e = e.clone()
            e[:, 0] = 0
        x = extra["joins"](torch.cat([extra["tokens"](e), extra["states"](h)], -1))
        made = extra["final"](through(block, model.model.rotary_emb, x))
        return model.lm_head(made)[0], made[0]

    with torch.no_grad():
        first = run(states)
        second = run(first[1][None])
    begin = f"model.layers.{layers}."
    to = begin if hides_first else "mtp."
    saved = {to + names[part] + ".weight": module.weight.detach() for part, module in extra.items()}

    def renamed(name):
        return name.replace(begin, to + "layers.0.") if not hides_first else name

    save_case(folder, model, saved, renamed, ids, states, first, second)
    path = folder / "model" / "config.json"
    written = json.loads(path.read_text())
    written["num_hidden_layers"] = layers
    for name in ("layer_types", "mlp_layer_types"):
        if isinstance(written.get(name), list):
            written[name] = written[name][:layers]
    path.write_text(json.dumps(written, indent=2) + "\n")


BEHIND = {"tokens": "enorm", "states": "hnorm", "joins": "eh_proj", "final": "shared_head.norm"}
BESIDE = {"tokens": "pre_fc_norm_embedding", "states": "pre_fc_norm_hidden", "joins": "fc", "final": "norm"}


def make(out):
    root = out / "drafting"
    common = {"vocab_size": TOKENS, "hidden_size": WIDTH, "num_attention_heads": 2, "max_position_embeddings": 64,
              "intermediate_size": 12, "moe_intermediate_size": 6, "num_experts_per_tok": 2, "tie_word_embeddings": False}
    torch.set_num_threads(1)
    eagle3(root / "eagle3")
    multi_token(root / "mtp-deepseek-v3", transformers.DeepseekV3ForCausalLM, transformers.DeepseekV3Config(
        **common, num_hidden_layers=3, num_key_value_heads=2, n_routed_experts=4, n_shared_experts=1, n_group=1,
        topk_group=1, first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=8, qk_rope_head_dim=4,
        qk_nope_head_dim=4, v_head_dim=6, rope_scaling=None), BEHIND, True)
    multi_token(root / "mtp-glm4-moe", transformers.Glm4MoeForCausalLM, transformers.Glm4MoeConfig(
        **common, num_hidden_layers=3, num_key_value_heads=1, head_dim=8, n_routed_experts=4, n_shared_experts=1,
        n_group=1, topk_group=1, first_k_dense_replace=1, use_qk_norm=True), BEHIND, True)
    multi_token(root / "mtp-qwen3-next", transformers.Qwen3NextForCausalLM, transformers.Qwen3NextConfig(
        **common, num_hidden_layers=3, num_key_value_heads=1, head_dim=8, num_experts=4,
        shared_expert_intermediate_size=6, linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=4,
        linear_value_head_dim=4, layer_types=["linear_attention", "full_attention", "full_attention"]), BESIDE, False)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
