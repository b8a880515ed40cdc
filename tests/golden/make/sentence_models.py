# SPDX-License-Identifier: Apache-2.0
"""Small models of sentences, and what sentence-transformers finds with them."""

import contextlib
import io
import random
import shutil

import datasets
import sentence_transformers as st
import torch
import transformers
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sparse_encoder import SparseEncoder
from sentence_transformers.sparse_encoder.modules import SpladePooling

from common import rounded, write_json
from random_models import draw_weights
from sentence_rows import SAID, rows_of
from vocabularies import make_tokenizer_files


def bert(labels=0):
    fields = dict(
        vocab_size=420,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    if labels:
        fields |= dict(id2label={i: f"LABEL_{i}" for i in range(labels)}, label2id={f"LABEL_{i}": i for i in range(labels)})
    return transformers.BertConfig(**fields)


def make_models(out):
    source = out / "source"
    for name, labels in (("bert", 0), ("dense", 0), ("ranker", 1), ("classifier", 3)):
        folder = out / "models" / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(source, ignore_errors=True)
        make_tokenizer_files("bert", source)
        kind = transformers.BertForSequenceClassification if labels else transformers.BertModel
        config = bert(labels)
        config.transformers_version = None
        model = kind(config) if labels else kind(config, add_pooling_layer=False)
        draw_weights(model, f"sentences-{name}", False)
        if labels:
            with torch.no_grad():
                model.classifier.weight.mul_(0.3)
        model.save_pretrained(source)
        if labels:
            shutil.copytree(source, folder)
            continue
        word = modules.Transformer(str(source), max_seq_length=24)
        pooling = modules.Pooling(16, pooling_mode="mean")
        more = []
        if name == "dense":
            torch.manual_seed(1)
            more = [modules.Dense(16, 8), modules.LayerNorm(8), modules.Normalize()]
        made = st.SentenceTransformer(modules=[word, pooling, *more], device="cpu")
        made.save_pretrained(str(folder), create_model_card=False)
    shutil.rmtree(source)
    make_sparse_model(out)


def make_sparse_model(out):
    source, folder = out / "source", out / "models" / "splade"
    for each in (source, folder):
        shutil.rmtree(each, ignore_errors=True)
    make_tokenizer_files("bert", source)
    config = bert()
    config.transformers_version = None
    model = transformers.BertForMaskedLM(config)
    draw_weights(model, "sentences-splade", False)
    model.save_pretrained(source)
    word = modules.Transformer(str(source), transformer_task="fill-mask", max_seq_length=24)
    made = SparseEncoder(modules=[word, SpladePooling()], device="cpu")
    made.save_pretrained(str(folder), create_model_card=False)
    shutil.rmtree(source)
    texts = [SAID[0][0], SAID[5][2]]
    vectors = made.encode(texts, convert_to_sparse_tensor=False)
    few = made.encode(texts, convert_to_sparse_tensor=False, max_active_dims=5)
    write_json(
        out / "splade-vectors.json",
        dict(
            texts=texts,
            vectors=rounded(vectors.tolist(), 6),
            max_active_dims=5,
            few=[{str(i): rounded(v, 6) for i, v in enumerate(row.tolist()) if v} for row in few],
            similarity=rounded(made.similarity(vectors[:1], vectors[1:]).item(), 5),
        ),
    )


MINED = [
    dict(),
    dict(num_negatives=2, output_format="n-tuple", output_scores=True, range_min=1),
    dict(output_format="labeled-list", max_score=0.9, relative_margin=0.05),
    dict(output_format="labeled-pair", output_scores=True, min_score=0.2, absolute_margin=0.01, num_negatives=2),
    dict(sampling_strategy="random", range_max=8, num_negatives=2, output_scores=True),
    dict(include_positives=True, num_negatives=4),
    dict(corpus=["A text of the corpus.", "Another one, which nobody asked for."], num_negatives=5),
]


def make_hard_negatives(out):
    """Of mine_hard_negatives() and what it stands on, for the wheel."""
    model = st.SentenceTransformer(str(out / "models" / "bert"), device="cpu")
    rows = rows_of("anchor", "positive")
    rows.append(dict(anchor=SAID[0][0], positive=SAID[3][1]))  # a query with three answers
    dataset = datasets.Dataset.from_list(rows)
    cases = []
    for options in MINED:
        random.seed(7)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            mined = st.util.mine_hard_negatives(dataset, model, verbose=False, **options)
        cases.append(dict(options=options, columns=rounded(mined.to_dict(), 6)))
    texts = [said[1] for said in SAID]
    vectors = model.encode(texts)
    write_json(
        out / "hard-negatives.json",
        dict(
            rows=rows,
            cases=cases,
            texts=texts[:2],
            vectors=rounded(vectors[:2].tolist(), 6),
            query=SAID[0][0],
            corpus=texts,
            closest=rounded(st.util.semantic_search(model.encode([SAID[0][0]]), vectors, top_k=3), 6),
        ),
    )
