# SPDX-License-Identifier: Apache-2.0
"""Encoders and encoder-decoders that are relatives of others: two small configurations of each, that differ in what the
family has options for, and a case of one layer for every other class."""

from family import ANSWERS, CHOICE, MASKED, SEQUENCE, TOKENS, Family, names

WRITES = "ForConditionalGeneration"
BUCKETS = dict(
    relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=0, eos_token_id=1, pad_token_id=0
)
MARKS = dict(pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, forced_eos_token_id=3)
ODD_BART = dict(
    d_model=18, encoder_attention_heads=3, decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=14, encoder_layers=3
)


def both(class_name, short, first, second, special, other, ending="lm"):
    """`first` and `second`: fields of the two configurations, which `special` and `other` describe."""
    return {f"{short}-{ending}": (class_name, first, special), f"{short}-other-{ending}": (class_name, second, other)}


# Gemma 3 as EmbeddingGemma has it.
BOTH_SIDES = {
    "gemma3-both-sides": (
        "Gemma3TextModel",
        dict(use_bidirectional_attention=True, sliding_window=12, num_hidden_layers=3, layer_types=["sliding_attention"] * 2 + ["full_attention"]),
        "EmbeddingGemma: sees both sides, in windows of 6 each way",
    ),
    "gemma3-both-sides-classes": (
        "Gemma3TextForSequenceClassification",
        dict(use_bidirectional_attention=True, sliding_window=14, num_key_value_heads=1, attention_bias=True),
        "sees both sides; one head of keys; biases",
    ),
}
GEMMA3 = Family(
    dict(
        head_dim=4, query_pre_attn_scalar=6, sliding_window=6, layer_types=["sliding_attention", "full_attention"]
    ),
    ["Gemma3TextModel", "Gemma3ForCausalLM", "Gemma3TextForSequenceClassification"],
    {"gemma3-lm": ("Gemma3ForCausalLM", "norms of q and k; two kinds of positions")},
    "gemma",
    "grouped",
    small=BOTH_SIDES,
)

ENCODERS = {
    "mt5": Family(
        BUCKETS,
        names("MT5", "Model", "EncoderModel", WRITES, SEQUENCE, TOKENS, ANSWERS),
        sizes="t5",
        small=both(
            "MT5" + WRITES, "mt5", {}, dict(d_kv=6, num_heads=3, num_decoder_layers=1, feed_forward_proj="gated-silu"),
            "T5 1.1: gated; the head is not scaled", "odd heads; one layer that writes; another gate",
        ),
    ),
    "umt5": Family(
        BUCKETS,
        names("UMT5", "Model", "EncoderModel", WRITES, SEQUENCE, TOKENS, ANSWERS),
        sizes="t5",
        small=both(
            "UMT5" + WRITES, "umt5", {}, dict(d_kv=5, num_heads=2, num_layers=3, feed_forward_proj="relu", tie_word_embeddings=False),
            "a bias by distance in each layer; a scaled head", "without a gate; the head is not scaled",
        ),
    ),
    "mbart": Family(
        MARKS | dict(decoder_start_token_id=4),
        names("MBart", "Model", WRITES, SEQUENCE, ANSWERS),
        sizes="bart",
        small=both(
            "MBart" + WRITES, "mbart", {}, ODD_BART | dict(scale_embedding=True, activation_function="relu"),
            "norms before layers and behind stacks; labels begin with their last token", "scaled embeddings; odd heads; ReLU",
        ),
    ),
    "m2m_100": Family(
        MARKS,
        names("M2M100", "Model", WRITES),
        sizes="bart",
        small=both(
            "M2M100" + WRITES, "m2m-100", {}, ODD_BART | dict(scale_embedding=False, activation_function="gelu"),
            "sinusoids behind the padding's id; scaled embeddings", "no scale; odd heads; GELU",
        ),
    ),
    "pegasus": Family(
        MARKS | dict(pad_token_id=0, decoder_start_token_id=0),
        names("Pegasus", "Model", WRITES),
        sizes="bart",
        small=both(
            "Pegasus" + WRITES, "pegasus", {}, ODD_BART | dict(scale_embedding=True, activation_function="relu"),
            "sinusoids; a bias of the logits", "scaled embeddings; odd heads; ReLU",
        ),
    ),
    "eurobert": Family(
        dict(mask_token_id=4),
        names("EuroBert", "Model", MASKED, SEQUENCE, TOKENS),
        sizes="grouped",
        small=both(
            "EuroBert" + MASKED, "eurobert", {}, dict(hidden_size=18, num_attention_heads=3, num_key_value_heads=1,
            attention_bias=True, mlp_bias=True, tie_word_embeddings=True), "LLaMA's layers that see both sides",
            "biases; a tied head with a bias", "masked",
        ) | both(
            "EuroBert" + SEQUENCE, "eurobert", dict(classifier_pooling="mean"), dict(classifier_pooling="bos"),
            "the mean of states", "the first state", "classes",
        ),
    ),
    "esm": Family(
        dict(pad_token_id=0, mask_token_id=4, eos_token_id=3, position_embedding_type="rotary"),
        names("Esm", "Model", MASKED, SEQUENCE, TOKENS),
        small=both(
            "Esm" + MASKED, "esm", dict(token_dropout=True), dict(position_embedding_type="absolute", hidden_size=18,
            num_attention_heads=3, emb_layer_norm_before=True, tie_word_embeddings=False),
            "rotary positions; masked tokens are read as nought", "a table of positions; a norm behind the embeddings; untied", "masked",
        ),
    ),
    "nomic_bert": Family(
        {},
        names("NomicBert", "Model", MASKED, SEQUENCE, TOKENS),
        small=both(
            "NomicBert" + MASKED, "nomic-bert", {}, dict(hidden_size=18, num_attention_heads=3, head_dim=4, hidden_act="gelu",
            tie_word_embeddings=False, rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}),
            "gated layers without biases; rotary positions", "heads of their own width; stretched positions; untied", "masked",
        ),
    ),
    "jina_embeddings_v3": Family(
        dict(pad_token_id=1, bos_token_id=2, eos_token_id=3),
        names("JinaEmbeddingsV3", "Model", MASKED, SEQUENCE, TOKENS, ANSWERS),
        small=both(
            "JinaEmbeddingsV3" + MASKED, "jina-embeddings-v3", {}, dict(hidden_size=18, num_attention_heads=3, hidden_act="relu",
            type_vocab_size=2, tie_word_embeddings=False), "XLM-RoBERTa with rotary positions", "odd heads; ReLU; untied", "masked",
        ),
    ),
    "deberta": Family(
        dict(relative_attention=True, pos_att_type=["c2p", "p2c"], position_biased_input=False),
        names("Deberta", "Model", MASKED, SEQUENCE, TOKENS, ANSWERS),
        small=both(
            "Deberta" + MASKED, "deberta", dict(max_relative_positions=8), dict(hidden_size=18, num_attention_heads=3, talking_head=True,
            pos_att_type="p2c", position_biased_input=True, type_vocab_size=2, legacy=False),
            "one layer for queries, keys and values; both kinds of positions", "heads that mix; a table of positions; token types", "masked",
        ),
    ),
    "longformer": Family(
        dict(pad_token_id=1, bos_token_id=2, eos_token_id=3, sep_token_id=4, attention_window=12),
        names("Longformer", "Model", MASKED, SEQUENCE, TOKENS, ANSWERS, CHOICE),
        small=both(
            "Longformer" + MASKED, "longformer", {}, dict(hidden_size=18, num_attention_heads=3, attention_window=[12, 12],
            hidden_act="relu", tie_word_embeddings=False), "tokens see six places each way", "a window for each layer; untied", "masked",
        ) | both(
            "Longformer" + SEQUENCE, "longformer", dict(attention_window=4), dict(attention_window=[4, 12]), "the first token sees all, and all see it",
            "windows of their own", "classes",
        ),
    ),
    "mobilebert": Family(
        dict(embedding_size=6, intra_bottleneck_size=8, num_feedforward_networks=2),
        names("MobileBert", "Model", MASKED, SEQUENCE, TOKENS, ANSWERS, CHOICE, "ForPreTraining", "ForNextSentencePrediction"),
        small=both(
            "MobileBert" + MASKED, "mobilebert", {}, dict(normalization_type="layer_norm", trigram_input=False, num_attention_heads=2,
            use_bottleneck_attention=True, key_query_shared_bottleneck=False, num_feedforward_networks=1, tie_word_embeddings=False),
            "bottlenecks; words with their neighbours; scales in place of norms", "layer norms; no neighbours; values in the bottleneck; untied",
            "masked",
        ),
    ),
}
