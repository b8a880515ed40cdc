# SPDX-License-Identifier: Apache-2.0
"""How wide and deep the models are."""

# Fields for the widths, by kind of configuration: hidden, inner, layers, heads, longest text.
SIZES = {
    "encoder": dict(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64
    ),
    "distilbert": dict(dim=16, hidden_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64),
    "gpt2": dict(n_embd=16, n_layer=2, n_head=4, n_positions=64),
    "bloom": dict(hidden_size=16, n_layer=2, n_head=4),
    "decoder": dict(
        hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128
    ),
    "grouped": dict(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
    ),
    "falcon": dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64),
    "gpt_neo": dict(
        hidden_size=16,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=5,
        max_position_embeddings=64,
    ),
    "mpt": dict(d_model=16, n_layers=2, n_heads=4, max_seq_len=64),
    "xglm": dict(d_model=16, ffn_dim=24, num_layers=2, attention_heads=4, max_position_embeddings=64),
    "opt": dict(
        hidden_size=16,
        ffn_dim=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        word_embed_proj_dim=16,
        max_position_embeddings=64,
    ),
    "t5": dict(d_model=16, d_ff=32, d_kv=4, num_layers=2, num_decoder_layers=2, num_heads=4),
    "bart": dict(
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
    ),
    "vision": dict(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8
    ),
    "speech": dict(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        conv_dim=[16, 16, 16],
        conv_kernel=[10, 3, 2],
        conv_stride=[5, 3, 2],
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        vocab_size=32,
    ),
    "spectrogram": dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4),
    "mamba": dict(hidden_size=16, num_hidden_layers=2, state_size=4),
    "none": {},
}
