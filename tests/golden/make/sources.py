# SPDX-License-Identifier: Apache-2.0
"""Encoders of texts with decoders that read what they made (EncoderDecoderModel)."""

import torch

from family import Family

WORDS = 60
BERT = dict(
    model_type="bert", vocab_size=WORDS, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=14,
    max_position_embeddings=40, pad_token_id=0,
)
# Its positions begin behind the padding, and are fewer by as many.
ROBERTA = BERT | dict(model_type="roberta", hidden_size=10, num_attention_heads=2, hidden_act="relu", type_vocab_size=1, pad_token_id=1)
WRITES = dict(is_decoder=True, add_cross_attention=True)
GPT2 = WRITES | dict(
    model_type="gpt2", vocab_size=WORDS - 3, n_embd=9, n_head=3, n_layer=2, n_positions=48, n_inner=11,
    bos_token_id=2, eos_token_id=3, tie_word_embeddings=False,
)
MARKS = dict(pad_token_id=0, eos_token_id=3, decoder_start_token_id=2)
CLASS = "EncoderDecoderModel"

SOURCES = {
    "encoder_decoder": Family(
        MARKS,
        [CLASS],
        sizes="none",
        model_type="encoder-decoder",
        small={
            "bert2bert": (
                CLASS,
                dict(encoder=BERT | dict(type_vocab_size=3), decoder=BERT | WRITES | dict(num_hidden_layers=1, tie_word_embeddings=False)),
                "odd heads; an untied head; labels alone, of which the decoder sees no padding",
            ),
            "bert2roberta": (
                CLASS,
                dict(encoder=BERT | dict(num_hidden_layers=1), decoder=ROBERTA | WRITES, pad_token_id=1),
                "a projection of the states; positions behind the padding",
            ),
            "roberta2gpt2": (
                CLASS,
                dict(encoder=ROBERTA, decoder=GPT2, decoder_start_token_id=0, pad_token_id=1),
                "GPT-2 with attention to a projection of RoBERTa's states; an untied head; tables of their own",
            ),
        },
    )
}


def inputs_of(name, config, texts, random):
    texts["input_ids"] = texts["input_ids"].masked_fill(texts["attention_mask"] == 0, config.encoder.pad_token_id)
    labels = torch.randint(5, config.decoder.vocab_size - 2, (3, 8), generator=random)
    labels[1, 6:] = -100
    inputs = texts | {"labels": labels}
    if name == "bert2bert":
        return inputs | {"token_type_ids": (torch.arange(texts["input_ids"].shape[1]) >= 6).long() * texts["attention_mask"]}
    start = torch.full((3, 1), config.decoder_start_token_id)
    return inputs | {"decoder_input_ids": torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] < 0, 4)], 1)}
