# SPDX-License-Identifier: Apache-2.0
"""Decoders that share/transom/families describes: two small configurations of each, that differ in what the family has
options for, and a case of one layer for every other class."""

from family import ANSWERS, CAUSAL, ROPE, SEQUENCE, TOKENS, Family, names

ODD = dict(hidden_size=18, num_attention_heads=3)  # three heads of six numbers
WIDE = dict(hidden_size=24, num_attention_heads=3)  # three heads of eight, of which half can turn
YARN = dict(
    rope_parameters={
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 8,
        "beta_fast": 4.0,
        "beta_slow": 1.0,
    }
)


LATENT_ALONE = dict(num_key_value_heads=4, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5)
LATENT = LATENT_ALONE | dict(
    moe_intermediate_size=10,
    n_shared_experts=2,
    num_experts_per_tok=3,
)


def turning(part, theta=10000.0):
    return dict(rope_parameters={"rope_theta": theta, "rope_type": "default", "partial_rotary_factor": part})


def family(prefix, heads, sizes, first, second, special, other, config=None, class_prefix=None, name=None):
    """`first` and `second`: fields of the two configurations, which `special` and `other` describe."""
    causal = (class_prefix or prefix) + CAUSAL
    short = name or prefix.lower()
    return Family(
        config or {},
        names(prefix, "Model", CAUSAL, *heads),
        sizes=sizes,
        small={
            f"{short}-lm": (causal, first, special),
            f"{short}-other-lm": (causal, second, other),
        },
    )


DECODERS = {
    "arcee": family(
        "Arcee", [SEQUENCE, TOKENS, ANSWERS], "grouped", {}, ODD | dict(num_key_value_heads=1, head_dim=4, attention_bias=True,
        mlp_bias=True, tie_word_embeddings=True), "the square of ReLU, without a gate", "biases; heads of their own width; tied", ROPE
    ),
    "codegen": family(
        "CodeGen", [], "gpt2", dict(rotary_dim=4), dict(n_embd=24, n_head=3, rotary_dim=6, n_inner=20, tie_word_embeddings=True),
        "queries, values and keys in four blocks; a head with a bias", "heads that lie across blocks; tied with a bias",
        dict(rotary_dim=4)
    ),
    "cohere": family(
        "Cohere", [], "grouped", {}, ODD | dict(num_key_value_heads=3, use_qk_norm=True, attention_bias=True, logit_scale=0.3,
        tie_word_embeddings=False), "side by side behind one norm; pairs side by side; scaled logits",
        "norms of each head; biases; untied"
    ),
    "cohere2": family(
        "Cohere2", [], "grouped", dict(sliding_window=6, num_hidden_layers=4), ODD | dict(num_key_value_heads=1, sliding_window=7,
        layer_types=["full_attention", "sliding_attention"], attention_bias=True), "windows of 6; the fourth layer knows no positions",
        "given kinds of layers; biases"
    ),
    "deepseek_v2": family(
        "DeepseekV2", [SEQUENCE], "decoder", dict(q_lora_rank=None, first_k_dense_replace=1, num_hidden_layers=3), LATENT
        | dict(q_lora_rank=8, n_routed_experts=6, topk_method="group_limited_greedy", n_group=3, topk_group=2,
        routed_scaling_factor=1.7, attention_bias=True, tie_word_embeddings=True, rope_parameters=YARN["rope_parameters"]
        | {"mscale": 1.0, "mscale_all_dim": 0.7}), "keys and values of latent vectors; a first layer without experts",
        "latent queries; experts in groups; scores scaled by YaRN; biases; tied",
        LATENT | dict(n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, q_lora_rank=8), name="deepseek-v2"
    ),
    "deepseek_v3": family(
        "DeepseekV3", [SEQUENCE, TOKENS], "decoder", dict(first_k_dense_replace=1, num_hidden_layers=3), LATENT
        | dict(q_lora_rank=None, n_routed_experts=5, n_group=1, topk_group=1, first_k_dense_replace=0, norm_topk_prob=False,
        rope_interleave=False, attention_bias=True, tie_word_embeddings=True, rope_parameters=YARN["rope_parameters"]
        | {"mscale": 1.0, "mscale_all_dim": 0.7}), "latent queries, keys and values; experts in groups by sigmoids and a correction",
        "plain queries; halves turn; one group; scores scaled by YaRN; biases; tied",
        LATENT | dict(n_routed_experts=8, n_group=4, topk_group=2, q_lora_rank=8, first_k_dense_replace=0), name="deepseek-v3"
    ),
    "exaone4": family(
        "Exaone4", [SEQUENCE, TOKENS, ANSWERS], "grouped", dict(sliding_window=6, num_hidden_layers=4),
        ODD | dict(num_key_value_heads=1, sliding_window=None, sliding_window_pattern=None,
        layer_types=["full_attention", "full_attention"], tie_word_embeddings=True),
        "norms behind each part; windows of 6; the fourth layer knows no positions", "no windows: all layers turn; tied",
    ),
    "falcon": family(
        "Falcon", [SEQUENCE, TOKENS, ANSWERS], "falcon", {}, dict(hidden_size=18, num_attention_heads=3, alibi=True, multi_query=False,
        parallel_attn=False, bias=True, tie_word_embeddings=False), "one head of keys; side by side",
        "ALiBi in bfloat16; one behind the other; biases; untied", ROPE
    ),
    "gemma4_text": Family(
        dict(num_hidden_layers=4, head_dim=8, global_head_dim=12, hidden_size_per_layer_input=4, vocab_size_per_layer_input=60),
        ["Gemma4TextModel", "Gemma4" + CAUSAL], sizes="grouped", small={
            "gemma4-text-lm": ("Gemma4" + CAUSAL, dict(sliding_window=6, num_kv_shared_layers=2, use_double_wide_mlp=True,
                layer_types=["sliding_attention", "full_attention"] * 2), "vectors of tokens for each layer; two layers that read the keys of others; wide heads"),
            "gemma4-text-other-lm": ("Gemma4" + CAUSAL, ODD | dict(num_hidden_layers=2, num_key_value_heads=3, hidden_size_per_layer_input=0,
                sliding_window=6, layer_types=["sliding_attention", "full_attention"], attention_k_eq_v=True, num_global_key_value_heads=1,
                head_dim=6, global_head_dim=12, attention_bias=True, tie_word_embeddings=False, final_logit_softcapping=5.0, rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}, "full_attention": {"rope_type": "proportional",
                "partial_rotary_factor": 0.5, "factor": 2.0, "rope_theta": 1000.0}}),
                "values that are keys in layers without a window; half of the pairs turn; biases; capped logits; untied"),
            "gemma4-text-experts-lm": ("Gemma4" + CAUSAL, dict(num_hidden_layers=2, sliding_window=6, hidden_size_per_layer_input=0,
                layer_types=["sliding_attention", "full_attention"], enable_moe_block=True, num_experts=4, top_k_experts=2,
                moe_intermediate_size=12), "experts beside a feed-forward layer, with norms of their own and a scaled router"),
        },
    ),
    "glm": family(
        "Glm", [SEQUENCE, TOKENS], "grouped", dict(head_dim=8), ODD | dict(num_key_value_heads=1, head_dim=4, attention_bias=False,
        tie_word_embeddings=True), "half of each head turns, in pairs side by side", "no biases; tied", turning(0.5) | dict(head_dim=8)
    ),
    "glm4": family(
        "Glm4", [SEQUENCE, TOKENS], "grouped", dict(head_dim=8), ODD | dict(num_key_value_heads=3, head_dim=4, attention_bias=False),
        "norms before and behind each part", "no biases", turning(0.5) | dict(head_dim=8)
    ),
    "glm4_moe": family(
        "Glm4Moe", [], "grouped", dict(num_hidden_layers=3), dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=1,
        first_k_dense_replace=0, use_qk_norm=True, attention_bias=True, n_routed_experts=6, n_group=3, topk_group=2, num_experts_per_tok=2,
        n_shared_experts=2, routed_scaling_factor=1.5, tie_word_embeddings=True), "experts behind a first layer; half of each head turns",
        "experts in groups; norms of queries and keys; biases; tied", turning(0.5) | dict(n_routed_experts=5, num_experts_per_tok=3,
        moe_intermediate_size=10), name="glm4-moe"
    ),
    "gpt_neo": family(
        "GPTNeo", [SEQUENCE, TOKENS, ANSWERS], "gpt_neo", {}, dict(hidden_size=18, num_heads=3, num_layers=3,
        attention_types=[[["local"], 2], [["global"], 1]], window_size=3, intermediate_size=20, tie_word_embeddings=False),
        "learned positions; windows of 5; scores without a scale", "windows of 3 in two layers; untied", name="gpt-neo"
    ),
    "gpt_oss": family(
        "GptOss", [SEQUENCE, TOKENS], "grouped", dict(head_dim=4, sliding_window=6), dict(hidden_size=18, num_attention_heads=3,
        num_key_value_heads=1, head_dim=6, sliding_window=5, layer_types=["full_attention", "sliding_attention"], num_local_experts=5,
        num_experts_per_tok=3, swiglu_alpha=1.3, swiglu_limit=0.6, attention_bias=False, tie_word_embeddings=True,
        output_router_logits=True, router_aux_loss_coef=0.05, **YARN), "sinks; experts with biases; windows of 6 in every other layer",
        "gates that are clamped; given kinds of layers; the loss of balance; YaRN; tied",
        dict(head_dim=4, intermediate_size=10, num_local_experts=4, num_experts_per_tok=2, sliding_window=6, **ROPE), name="gpt-oss"
    ),
    "gptj": family(
        "GPTJ", [SEQUENCE, ANSWERS], "gpt2", dict(rotary_dim=4), dict(n_embd=18, n_head=3, rotary_dim=2, n_inner=20,
        tie_word_embeddings=True), "side by side; pairs side by side; a head with a bias", "two numbers of each head turn; tied",
        dict(rotary_dim=4)
    ),
    "granite": family(
        "Granite", [], "grouped", dict(embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.5, logits_scaling=2.0),
        ODD | dict(num_key_value_heads=1, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, embedding_multiplier=0.7,
        **YARN), "multipliers of embeddings, scores, residuals, logits", "biases; tied; positions by YaRN"
    ),
    "granitemoe": family(
        "GraniteMoe", [], "grouped", dict(embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.5,
        logits_scaling=2.0), ODD | dict(num_key_value_heads=1, attention_bias=True, tie_word_embeddings=True, num_local_experts=5,
        num_experts_per_tok=3, output_router_logits=True, router_aux_loss_coef=0.05, **YARN),
        "experts in two tensors a layer; multipliers", "biases; the loss of balance; tied; positions by YaRN",
        ROPE | dict(intermediate_size=10, num_local_experts=4, num_experts_per_tok=2)
    ),
    "hunyuan_v1_dense": family(
        "HunYuanDenseV1", [SEQUENCE], "grouped", dict(head_dim=4), ODD | dict(num_key_value_heads=1, head_dim=6, attention_bias=True,
        tie_word_embeddings=True, rope_parameters={"rope_theta": 10000.0, "rope_type": "dynamic", "alpha": 50.0, "factor": 1.0}),
        "norms of queries and keys behind their positions", "a base that alpha enlarges; biases; tied", dict(head_dim=4, **ROPE), name="hunyuan-v1-dense"
    ),
    "minicpm3": family(
        "MiniCPM3", [SEQUENCE], "decoder", {}, LATENT_ALONE | dict(q_lora_rank=None, v_head_dim=None, scale_emb=0.7, scale_depth=None,
        dim_model_base=None, attention_bias=True, mlp_bias=True, tie_word_embeddings=False, rope_parameters=YARN["rope_parameters"]),
        "latent queries, keys and values; multipliers", "plain queries; biases; untied; positions by YaRN",
        LATENT_ALONE | dict(q_lora_rank=8, scale_emb=3, dim_model_base=8, initializer_range=0.02)
    ),
    "ministral3": family(
        "Ministral3", [SEQUENCE, TOKENS, ANSWERS], "grouped", dict(head_dim=4, rope_parameters=YARN["rope_parameters"]
        | {"llama_4_scaling_beta": 0.4, "mscale": 1.0, "mscale_all_dim": 1.0}), ODD | dict(num_key_value_heads=1, head_dim=4, sliding_window=6,
        tie_word_embeddings=True, rope_parameters={"rope_theta": 10000.0, "rope_type": "default", "llama_4_scaling_beta": 0.2,
        "original_max_position_embeddings": 4}), "YaRN; queries grow with their positions", "a window of 6; tied; plain positions",
        dict(head_dim=4, rope_parameters=YARN["rope_parameters"] | {"llama_4_scaling_beta": 0.4}),
    ),
    "mpt": family(
        "Mpt", [SEQUENCE, TOKENS, ANSWERS], "mpt", {}, dict(d_model=18, n_heads=3, attn_config=dict(clip_qkv=0.7, softmax_scale=0.5),
        tie_word_embeddings=False), "ALiBi; no biases", "three heads; clipped; a scale of scores; untied"
    ),
    "nemotron": family(
        "Nemotron", [SEQUENCE, TOKENS, ANSWERS], "grouped", {}, WIDE | dict(num_key_value_heads=1, attention_bias=True,
        mlp_bias=True, tie_word_embeddings=True), "layer norms that count from one; squares of ReLU", "biases; tied", turning(0.5)
    ),
    "olmo": family(
        "Olmo", [SEQUENCE], "grouped", {}, ODD | dict(num_key_value_heads=1, clip_qkv=0.6, attention_bias=True,
        tie_word_embeddings=True), "norms without weights", "clipped; biases; tied", ROPE
    ),
    "olmo2": family(
        "Olmo2", [SEQUENCE], "grouped", {}, ODD | dict(num_key_value_heads=1, attention_bias=True, tie_word_embeddings=True),
        "norms behind each part, and over all heads", "biases; tied", ROPE
    ),
    "olmo3": family(
        "Olmo3", [SEQUENCE], "grouped", dict(sliding_window=6, num_hidden_layers=4), ODD | dict(num_key_value_heads=1, sliding_window=7,
        layer_types=["full_attention", "sliding_attention"], attention_bias=True, tie_word_embeddings=True,
        rope_parameters={"full_attention": YARN["rope_parameters"], "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
        "windows of 6 in three of four layers", "given kinds of layers, of which one has YaRN; biases; tied"
    ),
    "persimmon": family(
        "Persimmon", [SEQUENCE, TOKENS], "decoder", {}, WIDE | dict(qk_layernorm=False, tie_word_embeddings=True),
        "norms of queries and keys; half of each head turns", "no norms of heads; tied", turning(0.5)
    ),
    "phi": family(
        "Phi", [SEQUENCE, TOKENS], "grouped", {}, WIDE | dict(num_key_value_heads=1, qk_layernorm=True, tie_word_embeddings=True),
        "side by side behind one norm; a head with a bias", "norms of heads; tied", turning(0.5)
    ),
    "seed_oss": family(
        "SeedOss", [SEQUENCE, TOKENS, ANSWERS], "grouped", dict(head_dim=4), ODD | dict(num_key_value_heads=3, head_dim=8,
        attention_bias=False, attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True), "biases of queries, keys, values",
        "other biases; wide heads; tied", ROPE | dict(head_dim=4), name="seed-oss"
    ),
    "smollm3": family(
        "SmolLM3", [SEQUENCE, TOKENS, ANSWERS], "grouped", dict(num_hidden_layers=4), ODD | dict(num_key_value_heads=1,
        no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=6, attention_bias=True, mlp_bias=True,
        tie_word_embeddings=False), "the fourth layer knows no positions; tied", "a window of 6 where no positions are; biases; untied", ROPE
    ),
    "stablelm": family(
        "StableLm", [SEQUENCE, TOKENS], "grouped", {}, WIDE | dict(num_key_value_heads=3, use_parallel_residual=True, qk_layernorm=True,
        use_qkv_bias=True, tie_word_embeddings=True), "layer norms; half of each head turns",
        "side by side; a norm for each head; biases; tied", turning(0.5)
    ),
    "xglm": family(
        "XGLM", [], "xglm", {}, dict(d_model=18, attention_heads=3, scale_embedding=False, activation_function="relu",
        tie_word_embeddings=False), "positions of sines and cosines; scaled embeddings", "no scale; ReLU; untied"
    ),
}
# Falcon has a third form.
DECODERS["falcon"].small["falcon-grouped-lm"] = (
    "FalconForCausalLM",
    dict(hidden_size=24, num_attention_heads=6, num_kv_heads=2, new_decoder_architecture=True, bias=True),
    "groups of heads; two norms side by side",
)
