# SPDX-License-Identifier: Apache-2.0
"""Decoders with a mixture of experts that have two main cases each."""

from family import ANSWERS, CAUSAL, ROPE, SEQUENCE, TOKENS, Family, names

EXPERTS = {
    "olmoe": Family(
        dict(
            hidden_size=18,
            num_attention_heads=3,
            num_key_value_heads=1,
            intermediate_size=10,
            num_experts=5,
            num_experts_per_tok=2,
            **ROPE,
        ),
        names("Olmoe", "Model", CAUSAL),
        {"olmoe-lm": ("OlmoeForCausalLM", "queries are normed over all heads at once, and keys")},
        "gpt_neox",
        "grouped",
        more={
            "olmoe-clipped-lm": (
                "OlmoeForCausalLM",
                dict(
                    hidden_size=16,
                    num_attention_heads=4,
                    num_key_value_heads=4,
                    num_experts=6,
                    num_experts_per_tok=3,
                    clip_qkv=0.8,
                    norm_topk_prob=True,
                    attention_bias=True,
                    output_router_logits=True,
                    router_aux_loss_coef=0.05,
                ),
                "queries, keys and values are clipped; biases; shares of one; the loss of balance",
            )
        },
    ),
    "qwen2_moe": Family(
        dict(
            hidden_size=18,
            num_attention_heads=3,
            num_key_value_heads=3,
            num_hidden_layers=3,
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=10,
            shared_expert_intermediate_size=14,
            mlp_only_layers=[1],
            **ROPE,
        ),
        names("Qwen2Moe", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"qwen2-moe-lm": ("Qwen2MoeForCausalLM", "an expert for all tokens with its gate; a layer without experts")},
        "qwen2",
        "grouped",
        more={
            "qwen2-moe-balanced-lm": (
                "Qwen2MoeForCausalLM",
                dict(
                    hidden_size=16,
                    num_attention_heads=4,
                    num_key_value_heads=2,
                    num_hidden_layers=4,
                    num_experts=6,
                    num_experts_per_tok=3,
                    mlp_only_layers=[],
                    decoder_sparse_step=2,
                    norm_topk_prob=True,
                    qkv_bias=False,
                    use_sliding_window=True,
                    sliding_window=6,
                    max_window_layers=3,
                    output_router_logits=True,
                    router_aux_loss_coef=0.05,
                    tie_word_embeddings=True,
                ),
                "experts in every second layer, shares of one; the loss of balance; windows of 6 in some layers; tied",
            )
        },
    ),
    "qwen3_moe": Family(
        dict(
            head_dim=6,
            num_attention_heads=3,
            num_key_value_heads=1,
            num_hidden_layers=3,
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=10,
            norm_topk_prob=True,
            mlp_only_layers=[1],
            **ROPE,
        ),
        names("Qwen3Moe", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"qwen3-moe-lm": ("Qwen3MoeForCausalLM", "two of five experts, shares of one; a layer without experts")},
        "qwen2",
        "grouped",
        more={
            "qwen3-moe-balanced-lm": (
                "Qwen3MoeForCausalLM",
                dict(
                    num_attention_heads=4,
                    num_key_value_heads=2,
                    num_hidden_layers=4,
                    num_experts=6,
                    num_experts_per_tok=3,
                    mlp_only_layers=[],
                    decoder_sparse_step=2,
                    norm_topk_prob=False,
                    attention_bias=True,
                    use_sliding_window=True,
                    sliding_window=6,
                    output_router_logits=True,
                    router_aux_loss_coef=0.05,
                    tie_word_embeddings=True,
                ),
                "experts in every second layer, shares of all; the loss of balance; a window of 6; tied",
            )
        },
    ),
}
