# SPDX-License-Identifier: Apache-2.0
"""Small configurations of the decoders that share/transom/families describes, drawn anew for scripts/compare-decoders."""


def drawn_rope(draw, part=None, kinds=("default", "linear", "yarn", "llama3", "dynamic")):
    """Parameters of rotary positions, of kinds that every family takes."""
    kind = draw.choice(kinds)
    made = {"rope_type": kind, "rope_theta": draw.choice([100.0, 10000.0, 500000.0])}
    if part is not None:
        made["partial_rotary_factor"] = part
    if kind in ("linear", "dynamic"):
        made["factor"] = draw.choice([2.0, 4.0])
    if kind == "yarn":
        made |= {"factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 4.0, "beta_slow": 1.0}
    if kind == "llama3":
        made |= {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}
    return made


def shape(draw, even=2, groups=True):
    """Heads, their width, and a hidden size that is or is not their product."""
    heads = draw.choice([1, 2, 3, 4, 6])
    keys = draw.choice([n for n in range(1, heads + 1) if heads % n == 0]) if groups else heads
    width = even * draw.choice([2, 3, 4])
    return heads, keys, width


def flag(draw):
    return draw.random() < 0.5


def llama_like(draw, wide=True, groups=True, part=None, kinds=("default", "linear", "yarn", "llama3", "dynamic"), even=2):
    heads, keys, width = shape(draw, even, groups)
    fields = dict(
        hidden_size=heads * width,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        intermediate_size=draw.choice([10, 17, 24]),
        num_hidden_layers=draw.choice([1, 2, 3]),
        max_position_embeddings=draw.choice([32, 64]),
        tie_word_embeddings=flag(draw),
        hidden_act=draw.choice(["silu", "gelu", "relu", "gelu_pytorch_tanh"]),
    )
    if kinds:
        fields["rope_parameters"] = drawn_rope(draw, part, kinds)
    if wide and flag(draw):
        fields["head_dim"] = even * draw.choice([2, 3, 5])
    return fields


def biased(draw, fields, *names):
    return fields | {name: flag(draw) for name in names}


def kinds_of_layers(draw, layers):
    return [draw.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]


def granite(draw):
    return biased(draw, llama_like(draw, wide=False), "attention_bias", "mlp_bias") | dict(
        embedding_multiplier=draw.choice([1.0, 3.0]),
        attention_multiplier=draw.choice([0.2, 1.0]),
        residual_multiplier=draw.choice([0.3, 1.0]),
        logits_scaling=draw.choice([1.0, 4.0]),
    )


def phi(draw):
    return biased(draw, llama_like(draw, False, part=0.5, even=4), "qk_layernorm")


def stablelm(draw):
    fields = llama_like(draw, False, part=draw.choice([0.25, 0.5, 1.0]), even=8)
    return biased(draw, fields, "qk_layernorm", "use_qkv_bias", "use_parallel_residual")


def gptj(draw, heads=(1, 2, 3, 4)):
    count, width = draw.choice(heads), draw.choice([4, 8, 12])
    return dict(
        n_embd=count * width,
        n_head=count,
        n_layer=draw.choice([1, 2, 3]),
        n_positions=32,
        rotary_dim=draw.choice([2, 4]),
        n_inner=draw.choice([None, 15]),
        activation_function=draw.choice(["gelu_new", "relu"]),
        tie_word_embeddings=flag(draw),
    )


def gpt_neo(draw):
    heads, layers = draw.choice([1, 2, 3]), draw.choice([2, 3])
    return dict(
        hidden_size=heads * draw.choice([4, 5, 6]),
        num_heads=heads,
        num_layers=layers,
        attention_types=[[["global"], 1], [["local"], layers - 1]] if flag(draw) else [[["local"], layers]],
        window_size=draw.choice([2, 5]),
        max_position_embeddings=32,
        intermediate_size=draw.choice([None, 15]),
        tie_word_embeddings=flag(draw),
    )


def falcon(draw):
    heads, keys, width = shape(draw)
    new = flag(draw)
    fields = dict(
        hidden_size=heads * width,
        num_attention_heads=heads,
        num_hidden_layers=draw.choice([1, 2]),
        new_decoder_architecture=new,
        alibi=flag(draw),
        bias=flag(draw),
        ffn_hidden_size=draw.choice([None, 15]),
        tie_word_embeddings=flag(draw),
        rope_parameters=drawn_rope(draw),
        max_position_embeddings=32,
    )
    if new:
        return fields | dict(num_kv_heads=keys, num_ln_in_parallel_attn=draw.choice([None, 1, 2]))
    return biased(draw, fields, "multi_query", "parallel_attn")


def mpt(draw):
    heads = draw.choice([1, 2, 3, 4, 5])
    return dict(
        d_model=heads * draw.choice([3, 4, 6]),
        n_heads=heads,
        n_layers=draw.choice([1, 2, 3]),
        max_seq_len=32,
        attn_config=dict(clip_qkv=draw.choice([None, 0.5]), softmax_scale=draw.choice([None, 0.4])),
        tie_word_embeddings=flag(draw),
    )


def persimmon(draw):
    fields = llama_like(draw, False, False, part=0.5, even=4)
    fields.pop("num_key_value_heads")
    return biased(draw, fields, "qk_layernorm") | dict(hidden_act=draw.choice(["relu2", "gelu"]))


def cohere(draw):
    return biased(draw, llama_like(draw, False), "attention_bias", "use_qk_norm") | dict(logit_scale=draw.choice([0.0625, 1.5]))


def cohere2(draw):
    fields = biased(draw, llama_like(draw, False), "attention_bias")
    if flag(draw):
        fields["layer_types"] = kinds_of_layers(draw, fields["num_hidden_layers"])
    return fields | dict(sliding_window=draw.choice([4, 6]))


def xglm(draw):
    heads = draw.choice([1, 2, 3])
    return dict(
        d_model=heads * draw.choice([4, 5, 6]),
        attention_heads=heads,
        num_layers=draw.choice([1, 2]),
        ffn_dim=draw.choice([11, 20]),
        scale_embedding=flag(draw),
        activation_function=draw.choice(["gelu", "relu"]),
        max_position_embeddings=32,
        tie_word_embeddings=flag(draw),
    )


def olmo(draw):
    return biased(draw, llama_like(draw, False), "attention_bias") | dict(clip_qkv=draw.choice([None, 0.5]))


def olmo2(draw):
    return biased(draw, llama_like(draw, False), "attention_bias")


def olmo3(draw):
    fields = biased(draw, llama_like(draw, False, kinds=None), "attention_bias")
    fields |= dict(sliding_window=draw.choice([4, 6]))
    if flag(draw):
        fields["layer_types"] = kinds_of_layers(draw, fields["num_hidden_layers"])
    if flag(draw):
        fields["rope_parameters"] = {
            "full_attention": drawn_rope(draw),
            "sliding_attention": drawn_rope(draw, None, ["default"]),
        }
    return fields


def smollm3(draw):
    fields = biased(draw, llama_like(draw, False), "attention_bias", "mlp_bias")
    if flag(draw):
        fields |= dict(use_sliding_window=True, sliding_window=4)
    if flag(draw):
        fields["no_rope_layers"] = [draw.choice([0, 1]) for _ in range(fields["num_hidden_layers"])]
    return fields | dict(no_rope_layer_interval=draw.choice([2, 4]))


def glm(draw):
    return biased(draw, llama_like(draw, part=0.5, even=4), "attention_bias") | dict(head_dim=draw.choice([4, 8, 12]))


def exaone4(draw):
    fields = llama_like(draw, False)
    layers = fields["num_hidden_layers"]
    if flag(draw):
        return fields | dict(sliding_window=4, layer_types=kinds_of_layers(draw, layers))
    if flag(draw):
        return fields | dict(sliding_window=None, sliding_window_pattern=None, layer_types=["full_attention"] * layers)
    return fields | dict(sliding_window=4, sliding_window_pattern=draw.choice([2, 3]))


def nemotron(draw):
    fields = biased(draw, llama_like(draw, part=0.5, even=4), "attention_bias", "mlp_bias")
    fields.pop("head_dim", None)
    return fields | dict(hidden_act=draw.choice(["relu2", "gelu"]))


def seed_oss(draw):
    return biased(draw, llama_like(draw), "attention_bias", "attention_out_bias", "mlp_bias") | dict(head_dim=draw.choice([4, 6]))


def hunyuan_v1_dense(draw):
    fields = biased(draw, llama_like(draw, False), "attention_bias")
    fields["head_dim"] = fields["hidden_size"] // fields["num_attention_heads"]
    if flag(draw):
        fields["rope_parameters"] = {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 30.0, "factor": 1.0}
    return fields


def ministral3(draw):
    fields = llama_like(draw)
    fields["rope_parameters"] |= {"llama_4_scaling_beta": draw.choice([0.1, 0.5]), "original_max_position_embeddings": 4}
    return fields | dict(head_dim=draw.choice([4, 6]), sliding_window=draw.choice([None, 5]))


STRETCHED = ("default", "linear", "yarn", "llama3")  # "dynamic" needs more than two numbers that turn


def gpt_oss(draw):
    fields = biased(draw, llama_like(draw, kinds=STRETCHED), "attention_bias", "output_router_logits")
    layers = fields["num_hidden_layers"]
    if flag(draw):
        fields["layer_types"] = kinds_of_layers(draw, layers)
    experts = draw.choice([3, 4, 6])
    return fields | dict(
        hidden_act="silu",
        head_dim=draw.choice([4, 6]),
        num_local_experts=experts,
        num_experts_per_tok=draw.randrange(1, experts),
        sliding_window=draw.choice([3, 5]),
        swiglu_alpha=draw.choice([1.0, 1.702]),
        swiglu_limit=draw.choice([0.5, 7.0]),
        router_aux_loss_coef=0.05,
    )


def latent(draw, groups):
    """DeepSeek's, with so many groups of experts."""
    fields = biased(draw, llama_like(draw, False, False, kinds=STRETCHED), "attention_bias")
    heads = fields["num_attention_heads"]
    if fields["rope_parameters"]["rope_type"] == "yarn" and flag(draw):
        fields["rope_parameters"] |= {"mscale": 1.0, "mscale_all_dim": draw.choice([0.7, 1.0])}
    each, seen = draw.choice([2, 3]), draw.randrange(1, groups + 1)
    return fields | dict(
        num_key_value_heads=heads,
        q_lora_rank=draw.choice([None, 5, 8]),
        kv_lora_rank=draw.choice([6, 9]),
        qk_nope_head_dim=draw.choice([3, 6]),
        qk_rope_head_dim=draw.choice([2, 4, 6]),
        v_head_dim=draw.choice([3, 6]),
        moe_intermediate_size=draw.choice([6, 9]),
        n_shared_experts=draw.choice([1, 2]),
        n_routed_experts=groups * each,
        n_group=groups,
        topk_group=seen,
        num_experts_per_tok=draw.randrange(1, seen * each + 1),
        first_k_dense_replace=draw.choice([0, 1]),
        routed_scaling_factor=draw.choice([1.0, 2.5]),
    )


def deepseek_v2(draw):
    """Of even widths: its positions are complex numbers that lie among the others."""
    fields = latent(draw, draw.choice([1, 2, 4])) | dict(qk_nope_head_dim=draw.choice([4, 6]), kv_lora_rank=draw.choice([6, 8]))
    return fields | dict(topk_method=draw.choice(["greedy", "group_limited_greedy"]))


def deepseek_v3(draw):
    return biased(draw, latent(draw, draw.choice([1, 2, 4])), "rope_interleave", "norm_topk_prob")


def glm4_moe(draw):
    fields = biased(draw, llama_like(draw, part=0.5, even=4), "attention_bias", "use_qk_norm", "norm_topk_prob")
    groups, each = draw.choice([1, 2, 3]), draw.choice([2, 3])
    seen = draw.randrange(1, groups + 1)
    return fields | dict(
        moe_intermediate_size=draw.choice([6, 9]),
        n_shared_experts=draw.choice([1, 2]),
        n_routed_experts=groups * each,
        n_group=groups,
        topk_group=seen,
        num_experts_per_tok=draw.randrange(1, seen * each + 1),
        first_k_dense_replace=draw.choice([0, 1]),
        routed_scaling_factor=draw.choice([1.0, 2.5]),
    )


def granitemoe(draw):
    fields = granite(draw)
    fields.pop("mlp_bias"), fields.pop("head_dim", None)
    experts = draw.choice([3, 4, 6])
    return biased(draw, fields, "output_router_logits") | dict(
        num_local_experts=experts, num_experts_per_tok=draw.randrange(1, experts), router_aux_loss_coef=0.05
    )


def minicpm3(draw):
    fields = biased(draw, llama_like(draw, False, False, kinds=STRETCHED), "attention_bias", "mlp_bias")
    return fields | dict(
        num_key_value_heads=fields["num_attention_heads"],
        q_lora_rank=draw.choice([None, 5, 8]),
        kv_lora_rank=draw.choice([6, 9]),
        qk_nope_head_dim=draw.choice([3, 6]),
        qk_rope_head_dim=draw.choice([2, 4, 6]),
        v_head_dim=draw.choice([None, 3]),
        scale_emb=draw.choice([1, 5]),
        scale_depth=draw.choice([None, 1.4]),
        dim_model_base=draw.choice([None, 6]),
    )


def arcee(draw):
    return biased(draw, llama_like(draw), "attention_bias", "mlp_bias") | dict(hidden_act="relu2")


def gemma4_text(draw):
    fields = biased(draw, llama_like(draw, False, kinds=None), "attention_bias", "attention_k_eq_v", "use_double_wide_mlp")
    activation, layers, shared = fields.pop("hidden_act"), draw.choice([2, 3, 4]), draw.choice([0, 0, 1, 2])
    kinds = [*kinds_of_layers(draw, layers - 1), "full_attention"]
    if layers - shared < len(set(kinds)) or set(kinds[: layers - shared]) != set(kinds):
        shared = 0
    experts = draw.choice([0, 0, 3])
    return fields | dict(
        hidden_activation=activation,
        num_hidden_layers=layers,
        layer_types=kinds,
        num_kv_shared_layers=shared,
        sliding_window=draw.choice([4, 6]),  # in float64 a row of padding alone gives NaN
        head_dim=draw.choice([4, 8]),
        global_head_dim=draw.choice([8, 12]),
        num_global_key_value_heads=draw.choice([None, 1]),
        hidden_size_per_layer_input=draw.choice([0, 4]),
        vocab_size_per_layer_input=60,
        final_logit_softcapping=draw.choice([None, 5.0]),
        enable_moe_block=experts > 0,
        num_experts=experts or None,
        top_k_experts=2 if experts else None,
        moe_intermediate_size=6 if experts else None,
    )


RECIPES = dict(
    arcee=arcee,
    codegen=lambda draw: gptj(draw, (1, 2, 3)) | dict(n_inner=draw.choice([None, 16])),
    cohere=cohere,
    cohere2=cohere2,
    deepseek_v2=deepseek_v2,
    deepseek_v3=deepseek_v3,
    exaone4=exaone4,
    falcon=falcon,
    gemma4_text=gemma4_text,
    glm=glm,
    glm4=glm,
    glm4_moe=glm4_moe,
    gpt_neo=gpt_neo,
    gpt_oss=gpt_oss,
    gptj=gptj,
    granite=granite,
    granitemoe=granitemoe,
    hunyuan_v1_dense=hunyuan_v1_dense,
    minicpm3=minicpm3,
    ministral3=ministral3,
    mpt=mpt,
    nemotron=nemotron,
    olmo=olmo,
    olmo2=olmo2,
    olmo3=olmo3,
    persimmon=persimmon,
    phi=phi,
    seed_oss=seed_oss,
    smollm3=smollm3,
    stablelm=stablelm,
    xglm=xglm,
)
DROPOUT = dict(
    seed_oss=dict(attention_dropout=0.0, residual_dropout=0.0), xglm=dict(attention_dropout=0.0, dropout=0.0)
)
