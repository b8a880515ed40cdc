#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From nothing to the first embedding of MODEL TEXT: with sentence-transformers, or with --onnx FILE by ONNX Runtime and
`tokenizers` alone. race.py times the whole process."""
import sys


def by_sentence_transformers(model, text):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(model, device="cpu").encode(text)


def by_onnxruntime(model, text, file):
    import numpy
    import onnxruntime
    import tokenizers

    tokens = tokenizers.Tokenizer.from_file(f"{model}/tokenizer.json").encode(text)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    feed = {"input_ids": tokens.ids, "attention_mask": tokens.attention_mask, "token_type_ids": tokens.type_ids}
    names = [port.name for port in session.get_inputs()]
    states = session.run(None, {name: numpy.array([feed[name]], dtype=numpy.int64) for name in names})[0][0]
    kept = states[numpy.array(tokens.attention_mask, dtype=bool)].mean(0)
    return kept / numpy.linalg.norm(kept)


arguments = sys.argv[1:]
print((by_onnxruntime(*arguments[:2], arguments[3]) if "--onnx" in arguments else by_sentence_transformers(*arguments))[:3])
