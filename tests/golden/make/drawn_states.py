# SPDX-License-Identifier: Apache-2.0
"""Small configurations, drawn anew, of decoders that keep a state of the text in some layers."""

from drawn_decoders import RECIPES, biased, flag, llama_like

WITHOUT_STRETCH = ("default", "linear")


def mixed(draw, state):
    """Two or three layers, of which one at least attends: Transformers asks a cache for keys."""
    layers = draw.choice([2, 3])
    kinds = [draw.choice([state, "full_attention"]) for _ in range(layers)]
    kinds[draw.randrange(layers)] = "full_attention"
    return dict(num_hidden_layers=layers, layer_types=kinds)


def lfm2(draw):
    fields = llama_like(draw, False, kinds=WITHOUT_STRETCH)
    fields.pop("hidden_act")
    return biased(draw, fields, "conv_bias", "block_auto_adjust_ff_dim") | mixed(draw, "conv") | dict(
        conv_L_cache=draw.choice([2, 3, 4]),
        block_multiple_of=draw.choice([1, 4, 7]),
        block_ffn_dim_multiplier=draw.choice([1.0, 1.5]),
    )


def lfm2_moe(draw):
    fields = llama_like(draw, False, kinds=WITHOUT_STRETCH)
    fields.pop("hidden_act")
    experts = draw.choice([3, 4, 6])
    return biased(draw, fields, "conv_bias", "use_expert_bias", "norm_topk_prob") | mixed(draw, "conv") | dict(
        conv_L_cache=draw.choice([2, 3]),
        moe_intermediate_size=draw.choice([6, 9]),
        num_dense_layers=draw.choice([0, 1]),
        num_experts=experts,
        num_experts_per_tok=draw.randrange(1, experts),
        routed_scaling_factor=draw.choice([1.0, 2.5]),
    )


def granitemoehybrid(draw):
    fields = biased(draw, llama_like(draw, False, kinds=("default",)), "attention_bias", "mamba_proj_bias", "mamba_conv_bias")
    fields |= mixed(draw, "linear_attention")
    inner, experts = 2 * fields["hidden_size"], draw.choice([0, 3, 5])
    heads = draw.choice([n for n in range(1, 7) if inner % n == 0])
    return fields | dict(
        mamba_n_heads=heads,
        mamba_d_head=draw.choice(["auto", inner // heads]),
        mamba_n_groups=draw.choice([n for n in range(1, heads + 1) if heads % n == 0]),
        mamba_d_state=draw.choice([3, 5, 8]),
        mamba_d_conv=draw.choice([2, 4]),
        mamba_chunk_size=4,
        shared_intermediate_size=draw.choice([6, 11]),
        num_local_experts=experts,
        num_experts_per_tok=draw.randrange(1, experts) if experts else 1,
        output_router_logits=experts > 0 and flag(draw),
        router_aux_loss_coef=0.05,
        position_embedding_type=draw.choice([None, "rope"]),
        embedding_multiplier=draw.choice([1.0, 3.0]),
        attention_multiplier=draw.choice([0.2, 1.0]),
        residual_multiplier=draw.choice([0.3, 1.0]),
        logits_scaling=draw.choice([1.0, 4.0]),
    )


def delta(draw):
    fields = biased(draw, llama_like(draw, False, part=0.5, even=4, kinds=WITHOUT_STRETCH), "attention_bias")
    keys = draw.choice([1, 2, 3])
    return fields | mixed(draw, "linear_attention") | dict(
        head_dim=draw.choice([4, 8, 12]),
        linear_num_key_heads=keys,
        linear_num_value_heads=keys * draw.choice([1, 2]),
        linear_key_head_dim=draw.choice([3, 4, 9]),
        linear_value_head_dim=draw.choice([3, 8]),
        linear_conv_kernel_dim=draw.choice([2, 4]),
    )


def chosen(draw, fields):
    experts = draw.choice([3, 4, 6])
    return biased(draw, fields, "output_router_logits") | dict(
        num_experts=experts,
        num_experts_per_tok=draw.randrange(1, experts),
        moe_intermediate_size=draw.choice([6, 9]),
        shared_expert_intermediate_size=draw.choice([5, 8]),
        router_aux_loss_coef=0.05,
    )


def qwen3_next(draw):
    return biased(draw, chosen(draw, delta(draw)), "norm_topk_prob") | dict(mlp_only_layers=draw.choice([[], [0], [1]]))


def nemotron_h(draw):
    fields = biased(draw, llama_like(draw, False, kinds=None), "mlp_bias", "use_bias", "use_conv_bias", "norm_topk_prob")
    for name in ("hidden_act", "num_hidden_layers", "tie_word_embeddings"):
        fields.pop(name)
    kinds = [draw.choice(["linear_attention", "full_attention", "mlp", "moe"]) for _ in range(draw.choice([2, 3, 4]))]
    kinds[draw.randrange(len(kinds))] = "full_attention"
    heads, groups = draw.choice([2, 3, 4]), draw.choice([1, 2])
    return fields | dict(
        layers_block_type=kinds,
        head_dim=draw.choice([4, 6]),
        mamba_num_heads=heads,
        mamba_head_dim=draw.choice([3, 4]),
        n_groups=draw.choice([n for n in range(1, heads + 1) if heads % n == 0]),
        ssm_state_size=draw.choice([3, 5]),
        conv_kernel=draw.choice([2, 4]),
        chunk_size=4,
        n_routed_experts=4,
        n_group=groups,
        topk_group=1,
        num_experts_per_tok=draw.choice([1, 2]),
        moe_intermediate_size=draw.choice([6, 9]),
        moe_shared_expert_intermediate_size=draw.choice([5, 8]),
        moe_latent_size=draw.choice([None, 7]),
        routed_scaling_factor=draw.choice([1.0, 2.5]),
    )


def jamba(draw):
    fields = biased(draw, llama_like(draw, False, kinds=None), "mamba_proj_bias", "mamba_conv_bias")
    experts = draw.choice([1, 3, 5])
    return fields | dict(
        output_router_logits=experts > 1 and flag(draw),
        num_hidden_layers=3,
        attn_layer_period=draw.choice([2, 3]),
        attn_layer_offset=draw.choice([0, 1]),
        expert_layer_period=2,
        expert_layer_offset=draw.choice([0, 1]),
        num_experts=experts,
        num_experts_per_tok=draw.randrange(1, experts) if experts > 1 else 1,
        router_aux_loss_coef=0.05,
        mamba_d_state=draw.choice([3, 5]),
        mamba_d_conv=draw.choice([2, 4]),
        mamba_dt_rank=draw.choice([2, "auto"]),
    )


RECIPES |= dict(
    granitemoehybrid=granitemoehybrid,
    jamba=jamba,
    lfm2=lfm2,
    lfm2_moe=lfm2_moe,
    nemotron_h=nemotron_h,
    qwen3_5_moe_text=lambda draw: chosen(draw, delta(draw)),
    qwen3_5_text=delta,
    qwen3_next=qwen3_next,
)
