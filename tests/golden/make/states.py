# SPDX-License-Identifier: Apache-2.0
"""Models that keep a state of a text, alone or beside keys and values."""

from decoders import family

ANY_STEP = dict(time_step_limit=[0.0, float("inf")])

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
}
