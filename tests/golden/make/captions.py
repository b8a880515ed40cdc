# SPDX-License-Identifier: Apache-2.0
"""Encoders of pictures with decoders that write about them."""

import torch

from family import Family
from sizes import SIZES

TROCR = dict(
    model_type="trocr",
    d_model=12,
    decoder_layers=2,
    decoder_attention_heads=3,
    decoder_ffn_dim=20,
    max_position_embeddings=48,
    cross_attention_hidden_size=16,
    scale_embedding=True,
    activation_function="relu",
    is_decoder=True,
    add_cross_attention=True,
    dropout=0.0,
)
GPT2 = SIZES["gpt2"] | dict(
    model_type="gpt2",
    n_embd=12,
    n_head=2,
    scale_attn_by_inverse_layer_idx=True,
    is_decoder=True,
    add_cross_attention=True,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
)

SWIN = dict(
    model_type="donut-swin",
    image_size=[24, 20],
    patch_size=2,
    embed_dim=6,
    depths=[1, 2],
    num_heads=[2, 3],
    window_size=4,
    mlp_ratio=2.0,
    drop_path_rate=0.0,
)
MBART = dict(
    model_type="mbart",
    d_model=8,
    decoder_layers=2,
    decoder_attention_heads=2,
    decoder_ffn_dim=12,
    encoder_layers=2,
    encoder_attention_heads=2,
    max_position_embeddings=40,
    scale_embedding=True,
    is_decoder=True,
    add_cross_attention=True,
    add_final_layer_norm=True,
    dropout=0.0,
    is_encoder_decoder=False,
)
# Of Donut: what stands around questions and answers, and one whole answer.
TAGS = ["<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>", "</s_answer>", "<yes/>"]

CAPTIONS = {
    "donut": Family(
        dict(encoder=SWIN, decoder=MBART),
        ["VisionEncoderDecoderModel"],
        {"donut": ("VisionEncoderDecoderModel", "Swin without a last norm and mBART's decoder; pages of another form")},
        "xlmr",
        "none",
        model_type="vision-encoder-decoder",
    ),
    "trocr": Family(
        dict(encoder=SIZES["vision"] | dict(model_type="vit"), decoder=TROCR),
        ["VisionEncoderDecoderModel"],
        {"trocr": ("VisionEncoderDecoderModel", "ViT and TrOCR's decoder, which reads states of another width")},
        "roberta",
        "none",
        model_type="vision-encoder-decoder",
    ),
    "vit_gpt2": Family(
        dict(
            encoder=SIZES["vision"] | dict(model_type="deit", image_size=24),
            decoder=GPT2,
        ),
        ["VisionEncoderDecoderModel"],
        {"vit-gpt2": ("VisionEncoderDecoderModel", "DeiT and GPT-2 with attention to a projection of its states")},
        "gpt2",
        "none",
        model_type="vision-encoder-decoder",
    ),
}


def fields_of(fields, tokenizer):
    """With the words of a tokenizer."""
    ids = {
        f"{role}_token_id": getattr(tokenizer, f"{role}_token_id")
        for role in ("pad", "bos", "eos")
        if getattr(tokenizer, f"{role}_token_id", None) is not None
    }
    ids.setdefault("pad_token_id", ids["eos_token_id"])
    start = dict(decoder_start_token_id=ids["eos_token_id"])
    return fields | ids | start | dict(decoder=fields["decoder"] | ids | dict(vocab_size=len(tokenizer)))


def inputs_of(name, config, random):
    side = config.encoder.image_size
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    words = config.decoder.vocab_size
    inputs = {"pixel_values": torch.empty(2, 3, height, width).normal_(generator=random)}
    texts = torch.randint(5, words - 4, (2, 8), generator=random)
    labels = texts.clone()
    labels[1, 6:] = -100
    if name == "vit-gpt2":
        start = torch.full((2, 1), config.decoder_start_token_id)
        inputs["decoder_input_ids"] = torch.cat([start, texts[:, :-1]], 1)
    return inputs | {"labels": labels}
