# SPDX-License-Identifier: Apache-2.0
"""Models that keep a state of a text, alone or beside keys and values."""

from decoders import ODD, family, turning
from family import ANSWERS, CAUSAL, SEQUENCE, TOKENS, Family

ANY_STEP = dict(time_step_limit=[0.0, float("inf")])

STATE_FIRST, ATTENTION_FIRST = ["linear_attention", "full_attention"], ["full_attention", "linear_attention"]
DELTA = dict(head_dim=8, linear_key_head_dim=6, linear_value_head_dim=5, linear_num_key_heads=2, linear_num_value_heads=4)
OTHER_DELTA = dict(
    num_key_value_heads=1, head_dim=12, linear_key_head_dim=4, linear_value_head_dim=7, linear_num_key_heads=3, linear_num_value_heads=3,
    linear_conv_kernel_dim=3, attention_bias=True, tie_word_embeddings=True, hidden_act="gelu",
)
CHOSEN = dict(moe_intermediate_size=10, shared_expert_intermediate_size=14, num_experts=4, num_experts_per_tok=2)

STATES = {
    "mamba": family(
        "Mamba", [], "mamba", {}, dict(hidden_size=18, state_size=5, expand=3, conv_kernel=3, time_step_rank=3, use_bias=True,
        use_conv_bias=False, residual_in_fp32=False, hidden_act="gelu", tie_word_embeddings=False), "tied",
        "biases, but none of the convolution, over three tokens; a rank of 3; untied"
    ),
    "falcon_mamba": family(
        "FalconMamba", [], "mamba", dict(time_step_rank=4), dict(hidden_size=18, state_size=5, conv_kernel=2, time_step_rank=3, use_bias=True,
        use_conv_bias=False, mixer_rms_eps=0.01, tie_word_embeddings=False), "norms of steps, inputs and outputs; tied",
        "biases, but none of the convolution, over two tokens; untied", name="falcon-mamba"
    ),
    "mamba2": family(
        "Mamba2", [], "mamba", dict(num_heads=4, head_dim=8, n_groups=2, chunk_size=4, **ANY_STEP), dict(hidden_size=18, state_size=5,
        num_heads=6, head_dim=6, n_groups=1, chunk_size=256, conv_kernel=3, use_bias=True, use_conv_bias=False,
        tie_word_embeddings=True, **ANY_STEP), "two groups of heads; untied", "one group; biases; tied",
        # Limits are held in the body alone: Transformers forgets them while it writes (docs/differences.md).
        dict(num_heads=4, head_dim=8, n_groups=2, chunk_size=4, time_step_limit=[0.2, 1.5])
    ),
    "lfm2": family(
        "Lfm2", [], "grouped", dict(layer_types=["conv", "full_attention"], block_multiple_of=8), ODD | dict(num_key_value_heads=1,
        layer_types=["full_attention", "conv"], conv_L_cache=4, conv_bias=True, block_auto_adjust_ff_dim=False,
        tie_word_embeddings=False), "a convolution of three tokens; adjusted widths; tied",
        "attention first; a convolution of four tokens with biases; untied"
    ),
    "lfm2_moe": family(
        "Lfm2Moe", [], "grouped", dict(layer_types=["conv", "full_attention"], num_dense_layers=1), ODD | dict(num_key_value_heads=1,
        layer_types=["full_attention", "conv"], num_dense_layers=0, conv_bias=True, use_expert_bias=False, norm_topk_prob=False,
        routed_scaling_factor=1.5, tie_word_embeddings=False), "experts chosen with a correction; tied",
        "experts in all layers, without a correction; scaled shares; untied",
        dict(layer_types=["full_attention"], num_dense_layers=0, moe_intermediate_size=10, num_experts=4, num_experts_per_tok=2),
        name="lfm2-moe"
    ),
    "granitemoehybrid": family(
        "GraniteMoeHybrid", [], "grouped", dict(layer_types=STATE_FIRST, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=6,
        mamba_n_groups=2, mamba_chunk_size=4, shared_intermediate_size=12, num_local_experts=4, num_experts_per_tok=2,
        embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.5, attention_multiplier=0.3,
        output_router_logits=True, router_aux_loss_coef=0.05), ODD | dict(num_key_value_heads=3, layer_types=ATTENTION_FIRST,
        mamba_n_heads=6, mamba_d_head="auto", mamba_n_groups=1, mamba_d_state=5, mamba_d_conv=3, mamba_proj_bias=True, mamba_conv_bias=False,
        shared_intermediate_size=10, num_local_experts=0, position_embedding_type="rope", attention_bias=True,
        tie_word_embeddings=True, attention_multiplier=0.4), "no positions; experts beside a layer; the loss of balance; multipliers",
        "attention first, with positions and biases; no experts; one group; tied",
        dict(layer_types=ATTENTION_FIRST[:1], mamba_n_heads=4, mamba_d_head=8, mamba_d_state=6, num_local_experts=3, shared_intermediate_size=12)
    ),
    "nemotron_h": family(
        "NemotronH", [], "grouped", dict(layers_block_type=["linear_attention", "mlp", "full_attention", "moe"]), ODD | dict(
        layers_block_type=["full_attention", "linear_attention", "moe", "mlp"], num_key_value_heads=1, head_dim=6, mamba_num_heads=3,
        mamba_head_dim=6, n_groups=1, use_bias=True, mlp_bias=True, use_conv_bias=False, conv_kernel=3, moe_latent_size=7, n_group=2,
        norm_topk_prob=False, routed_scaling_factor=1.5), "each layer has one part; experts without gates",
        "biases, but none of the convolution; experts in groups, of narrower vectors; scaled shares", dict(
        layers_block_type=["full_attention"], mamba_num_heads=4, mamba_head_dim=4, n_groups=2, ssm_state_size=5, chunk_size=4,
        head_dim=4, n_routed_experts=4, moe_intermediate_size=10, moe_shared_expert_intermediate_size=6, **ANY_STEP), name="nemotron-h"
    ),
    "qwen3_next": family(
        "Qwen3Next", [SEQUENCE, TOKENS, ANSWERS], "grouped", dict(layer_types=STATE_FIRST, **DELTA, **CHOSEN), ODD | OTHER_DELTA | CHOSEN | dict(
        num_hidden_layers=3, layer_types=[*ATTENTION_FIRST, "linear_attention"], mlp_only_layers=[1], norm_topk_prob=False,
        output_router_logits=True, router_aux_loss_coef=0.05, **turning(0.5)), "two heads of values share one of keys; experts",
        "attention first, with biases; a layer without experts; the loss of balance; tied",
        dict(layer_types=ATTENTION_FIRST[:1], **DELTA, **CHOSEN), name="qwen3-next"
    ),
    "qwen3_5_text": Family(
        dict(layer_types=ATTENTION_FIRST[:1], **DELTA), ["Qwen3_5TextModel", "Qwen3_5" + CAUSAL, "Qwen3_5Text" + SEQUENCE], sizes="grouped",
        small={
            "qwen3-5-text-lm": ("Qwen3_5" + CAUSAL, dict(layer_types=STATE_FIRST), "four layers into the delta rule"),
            "qwen3-5-text-other-lm": ("Qwen3_5" + CAUSAL, ODD | OTHER_DELTA | dict(layer_types=ATTENTION_FIRST, **turning(0.5)),
                                      "attention first, with biases; tied"),
        },
    ),
    "qwen3_5_moe_text": Family(
        dict(layer_types=ATTENTION_FIRST[:1], **DELTA, **CHOSEN), ["Qwen3_5MoeTextModel", "Qwen3_5Moe" + CAUSAL], sizes="grouped",
        small={
            "qwen3-5-moe-text-lm": ("Qwen3_5Moe" + CAUSAL, dict(layer_types=STATE_FIRST), "experts, of which one is for all tokens"),
            "qwen3-5-moe-text-other-lm": ("Qwen3_5Moe" + CAUSAL, ODD | OTHER_DELTA | dict(layer_types=ATTENTION_FIRST, num_experts=5,
                                          output_router_logits=True, router_aux_loss_coef=0.05, **turning(0.5)),
                                          "attention first, with biases; the loss of balance; tied"),
        },
    ),
    "jamba": family(
        "Jamba", [SEQUENCE], "grouped", dict(attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
        mamba_dt_rank=3, output_router_logits=True, router_aux_loss_coef=0.05), ODD | dict(num_key_value_heads=3, attn_layer_period=2,
        attn_layer_offset=0, expert_layer_period=2, expert_layer_offset=1, mamba_d_conv=2, mamba_d_state=5, mamba_proj_bias=True,
        mamba_conv_bias=False, mamba_dt_rank="auto", tie_word_embeddings=True), "a scan, then attention with experts; the loss of balance",
        "attention first; experts behind a scan with biases; tied",
        dict(attn_layer_period=1, attn_layer_offset=0, expert_layer_period=1, expert_layer_offset=0, mamba_d_state=4, num_experts=4,
        num_experts_per_tok=2)
    ),
}
