# SPDX-License-Identifier: Apache-2.0
"""Small configurations, drawn anew, of the decoders that have a folder in src/models/families. Windows hold four tokens at
least: in float64 a row of padding alone gives NaN."""

from drawn_decoders import RECIPES, biased, drawn_rope, flag, kinds_of_layers, llama_like

ROPE = ("default", "linear", "yarn", "llama3", "dynamic", "longrope")


def rope_of(draw, width, kinds=ROPE):
    """With odd factors, for `width` turned numbers of a head."""
    kind = draw.choice(kinds)
    if kind != "longrope":
        made = drawn_rope(draw, None, (kind,))
        if kind == "yarn":
            made |= draw.choice([{}, {"mscale": 0.7, "mscale_all_dim": 1.3}, {"attention_factor": 1.3}])
            made |= {"factor": draw.choice([1.7, 4.0, 16.5])} | draw.choice([{}, {"truncate": False}])
        if kind in ("linear", "dynamic"):
            made["factor"] = draw.choice([1.5, 3.3])
        if kind == "llama3":
            made |= {"factor": draw.choice([3.7, 32.0]), "low_freq_factor": draw.choice([1.0, 1.5])}
        return made
    return {
        "rope_type": "longrope",
        "rope_theta": draw.choice([100.0, 10000.0]),
        "short_factor": [round(draw.uniform(1, 2), 2) for _ in range(width // 2)],
        "long_factor": [round(draw.uniform(1, 9), 2) for _ in range(width // 2)],
        "original_max_position_embeddings": draw.choice([8, 11, 20]),
        "factor": 3.5,
    } | draw.choice([{}, {"attention_factor": 1.2}])


def head_width(fields):
    return fields.get("head_dim") or fields["hidden_size"] // fields["num_attention_heads"]


def odd_llama(draw, wide=True, kinds=ROPE):
    fields = llama_like(draw, wide, kinds=None)
    fields["rope_parameters"] = rope_of(draw, head_width(fields), kinds)
    fields["rms_norm_eps"] = draw.choice([1e-6, 1e-3])
    return fields


def llama(draw):
    return biased(draw, odd_llama(draw), "attention_bias", "mlp_bias")


def mistral(draw):
    return odd_llama(draw) | dict(sliding_window=draw.choice([None, 4, 6]))


def balanced(draw, experts):
    """More of them than half is odd, all of them is the limit."""
    return dict(
        num_experts_per_tok=draw.randrange(1, experts + 1),
        output_router_logits=flag(draw),
        router_aux_loss_coef=draw.choice([0.05, 0.3]),
    )


def mixtral(draw):
    experts = draw.choice([3, 4, 5, 7])
    return odd_llama(draw) | dict(num_local_experts=experts, sliding_window=draw.choice([None, 4])) | balanced(draw, experts)


def windows(draw, fields):
    """Qwen's: layers from a number on see a window, or those that a list names."""
    if flag(draw):
        return fields | dict(
            use_sliding_window=True, sliding_window=draw.choice([4, 5]), max_window_layers=draw.choice([0, 1, 2])
        )
    if flag(draw):
        kinds = kinds_of_layers(draw, fields["num_hidden_layers"])
        return fields | dict(use_sliding_window=True, sliding_window=draw.choice([4, 5]), layer_types=kinds)
    return fields


def qwen2(draw):
    return windows(draw, odd_llama(draw, False))


def qwen3(draw):
    return windows(draw, biased(draw, odd_llama(draw) | dict(head_dim=draw.choice([4, 6, 10])), "attention_bias")) | dict(
        rope_parameters=drawn_rope(draw)
    )


def experts_of(draw, fields):
    experts, layers = draw.choice([3, 4, 5, 7]), fields["num_hidden_layers"]
    return biased(draw, fields, "norm_topk_prob") | balanced(draw, experts) | dict(
        num_experts=experts,
        moe_intermediate_size=draw.choice([5, 9]),
        decoder_sparse_step=draw.choice([1, 1, 2]),
        mlp_only_layers=draw.choice([[], [layers - 1]]) if layers > 1 else [],
    )


def qwen2_moe(draw):
    fields = biased(draw, experts_of(draw, qwen2(draw)), "qkv_bias")
    return fields | dict(shared_expert_intermediate_size=draw.choice([5, 8]))


def qwen3_moe(draw):
    fields = biased(draw, odd_llama(draw), "attention_bias")
    if flag(draw):
        fields |= dict(use_sliding_window=True, sliding_window=draw.choice([4, 5]))
    return experts_of(draw, fields)


def olmoe(draw):
    experts = draw.choice([3, 5, 6])
    fields = biased(draw, odd_llama(draw, False), "attention_bias", "norm_topk_prob") | balanced(draw, experts)
    return fields | dict(num_experts=experts, clip_qkv=draw.choice([None, 0.5]))


def gemma(draw):
    fields = biased(draw, odd_llama(draw), "attention_bias")
    return fields | dict(head_dim=draw.choice([4, 6, 10]), rope_parameters=drawn_rope(draw))


def gemma2(draw):
    fields = gemma(draw)
    fields["hidden_activation"] = fields.pop("hidden_act")
    if flag(draw):
        fields["layer_types"] = kinds_of_layers(draw, fields["num_hidden_layers"])
    return fields | dict(
        query_pre_attn_scalar=draw.choice([5, 16]),
        sliding_window=draw.choice([4, 6]),
        final_logit_softcapping=draw.choice([None, 3.0]),
        attn_logit_softcapping=draw.choice([None, 2.0]),
    )


def gemma3_text(draw):
    fields = gemma2(draw)
    fields["rope_parameters"] = {
        "full_attention": drawn_rope(draw, None, ("default", "linear", "yarn", "llama3")),
        "sliding_attention": drawn_rope(draw, None, ("default", "linear")),
    }
    return fields


def phi3(draw):
    fields = llama_like(draw, False, kinds=None, even=4)
    part = draw.choice([0.5, 1.0])
    turned = int(part * head_width(fields))
    longest = fields["max_position_embeddings"]
    rope = rope_of(draw, turned, ("default", "longrope", "longrope"))
    rope.pop("factor", None)
    rope["partial_rotary_factor"] = part
    first = rope.get("original_max_position_embeddings", longest)
    return fields | dict(
        rope_parameters=rope, original_max_position_embeddings=first, sliding_window=draw.choice([None, 4, 7])
    )


def starcoder2(draw):
    return biased(draw, odd_llama(draw, False), "use_bias") | dict(sliding_window=draw.choice([None, 4]), norm_epsilon=1e-3)


def gpt_neox(draw):
    fields = llama_like(draw, False, False, kinds=None, even=4)
    fields.pop("num_key_value_heads")
    width = head_width(fields)
    part = draw.choice([0.5, 1.0])
    rope = rope_of(draw, int(part * width)) | {"partial_rotary_factor": part}
    return biased(draw, fields, "use_parallel_residual", "attention_bias") | dict(rope_parameters=rope)


def gpt2(draw):
    heads = draw.choice([1, 3, 5])
    return dict(
        n_embd=heads * draw.choice([3, 5]),
        n_head=heads,
        n_layer=draw.choice([1, 3]),
        n_positions=32,
        n_inner=draw.choice([None, 13]),
        activation_function=draw.choice(["gelu_new", "relu", "tanh"]),
        scale_attn_weights=flag(draw),
        scale_attn_by_inverse_layer_idx=flag(draw),
        tie_word_embeddings=flag(draw),
    )


def gpt_bigcode(draw):
    fields = gpt2(draw)
    fields.pop("scale_attn_by_inverse_layer_idx")
    return biased(draw, fields, "multi_query", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32")


def bloom(draw):
    heads = draw.choice([1, 3, 5, 6])
    return dict(
        hidden_size=heads * draw.choice([3, 4]),
        n_head=heads,
        n_layer=draw.choice([1, 3]),
        apply_residual_connection_post_layernorm=flag(draw),
        tie_word_embeddings=flag(draw),
    )


def opt(draw):
    heads = draw.choice([1, 3, 5])
    hidden = heads * draw.choice([3, 4])
    before = flag(draw)
    return dict(
        hidden_size=hidden,
        num_attention_heads=heads,
        num_hidden_layers=draw.choice([1, 3]),
        ffn_dim=draw.choice([11, 20]),
        word_embed_proj_dim=draw.choice([hidden, 7]),
        max_position_embeddings=32,
        do_layer_norm_before=before,
        enable_bias=flag(draw),
        layer_norm_elementwise_affine=flag(draw),
        activation_function=draw.choice(["relu", "gelu"]),
        tie_word_embeddings=flag(draw),
        _remove_final_layer_norm=before and flag(draw),
    )


def mamba(draw):
    return dict(
        hidden_size=draw.choice([6, 9, 14]),
        num_hidden_layers=draw.choice([1, 3]),
        state_size=draw.choice([3, 5]),
        expand=draw.choice([1, 2, 3]),
        conv_kernel=draw.choice([2, 3, 4]),
        use_bias=flag(draw),
        use_conv_bias=flag(draw),
        hidden_act=draw.choice(["silu", "gelu"]),
        time_step_rank=draw.choice(["auto", 3]),
        residual_in_fp32=flag(draw),
        tie_word_embeddings=flag(draw),
    )


def mamba2(draw):
    heads, width, expand = draw.choice([1, 2, 3, 6]), draw.choice([4, 5]), draw.choice([1, 2])
    groups = draw.choice([n for n in range(1, heads + 1) if heads % n == 0])
    fields = mamba(draw)
    fields.pop("time_step_rank"), fields.pop("residual_in_fp32")
    if heads * width % expand:
        expand = 1
    return fields | dict(
        hidden_size=heads * width // expand,
        expand=expand,
        num_heads=heads,
        head_dim=width,
        n_groups=groups,
        chunk_size=draw.choice([3, 4, 256]),
        time_step_limit=(0.0, float("inf")),  # docs/differences.md
        hidden_act=draw.choice(["silu", "gelu"]),
    )


RECIPES |= dict(
    llama=llama,
    mistral=mistral,
    mixtral=mixtral,
    qwen2=qwen2,
    qwen3=qwen3,
    qwen2_moe=qwen2_moe,
    qwen3_moe=qwen3_moe,
    olmoe=olmoe,
    gemma=gemma,
    gemma2=gemma2,
    gemma3_text=gemma3_text,
    phi3=phi3,
    starcoder2=starcoder2,
    gpt_neox=gpt_neox,
    gpt2=gpt2,
    gpt_bigcode=gpt_bigcode,
    bloom=bloom,
    opt=opt,
    mamba=mamba,
    falcon_mamba=mamba,
    mamba2=mamba2,
)
