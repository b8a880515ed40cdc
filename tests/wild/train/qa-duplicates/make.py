# SPDX-License-Identifier: Apache-2.0
"""Makes answers.json anew: what the question-answering pipeline of Transformers 4.57.6 (the last that had it; its
select_starts_ends, decode_spans and the merging of huggingface/transformers#38761) gives for a small model with random
weights, with the probabilities over the context alone. Its tokens are letters, so that many spans are of one word.

    python make.py
"""
import json
import os

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = [("Where?", "日本語のテキスト supercalifragilistic expialidocious"),
         ("Where?", "Rome rome ROME and Paris, paris. In Rome."),
         ("Who went to the old house?", "Ann went to the old house by the sea. Later Ann and Bob went back to the house, and "
          "Ann stayed there for many years while Bob wrote letters to Ann from the city, and the house grew old.")]
OPTIONS = [{"top_k": 5}, {"top_k": 1}, {"top_k": 5, "align_to_words": False},
           {"top_k": 20, "max_answer_len": 4}, {"top_k": 4, "max_seq_len": 60, "doc_stride": 12},
           {"top_k": 3, "max_seq_len": 60, "doc_stride": 12, "align_to_words": False}]


def decode_spans(start, end, topk, max_answer_len, desired):
    candidates = np.tril(np.triu(np.outer(start, end)), max_answer_len - 1)
    flat = candidates.flatten()
    order = np.argsort(-flat, kind="stable")[:topk]
    starts, ends = np.unravel_index(order, candidates.shape)
    kept = desired[starts] & desired[ends]
    return [(s, e, candidates[s, e]) for s, e in zip(starts[kept], ends[kept])]


def answers(model, tokenizer, question, context, top_k=1, align_to_words=True, max_answer_len=15, max_seq_len=None,
            doc_stride=None):
    max_seq_len = max_seq_len or min(tokenizer.model_max_length, 384)
    doc_stride = min(max_seq_len // 2, 128) if doc_stride is None else doc_stride
    encoded = tokenizer(question, context, truncation="only_second", max_length=max_seq_len, stride=doc_stride,
                        return_overflowing_tokens=True)
    found = []
    for i in range(len(encoded["input_ids"])):
        inputs = {name: torch.tensor([encoded[name][i]]) for name in tokenizer.model_input_names if name in encoded}
        with torch.no_grad():
            out = model(**inputs)
        desired = np.array([each == 1 for each in encoded.sequence_ids(i)])
        scores = []
        for logits in (out.start_logits[0], out.end_logits[0]):
            masked = np.where(desired, logits.double().numpy(), -10000.0)
            exponents = np.exp(masked - masked.max())
            scores.append(exponents / exponents.sum())
        encoding = encoded.encodings[i]
        for s, e, score in decode_spans(*scores, top_k * 2 + 10 if align_to_words else top_k, max_answer_len, desired):
            if align_to_words:
                begin = encoding.word_to_chars(encoding.token_to_word(s), sequence_index=1)[0]
                end = encoding.word_to_chars(encoding.token_to_word(e), sequence_index=1)[1]
            else:
                begin, end = encoding.offsets[s][0], encoding.offsets[e][1]
            text = context[begin:end]
            for each in found:
                if each["answer"].lower() == text.lower():
                    each["score"] += score
                    break
            else:
                found.append({"score": float(score), "start": begin, "end": end, "answer": text})
    return sorted(found, key=lambda each: each["score"], reverse=True)[:top_k]


def save_model():
    letters = sorted(set("".join(q + c for q, c in TEXTS)) - {" "})
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters,
                                                      *("##" + each for each in letters)])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
                            sep_token="[SEP]", model_input_names=["input_ids", "token_type_ids", "attention_mask"]
                            ).save_pretrained(os.path.join(HERE, "model"))
    torch.manual_seed(1)
    config = BertConfig(vocab_size=len(vocabulary), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=8, max_position_embeddings=400, initializer_range=0.7)
    model = BertForQuestionAnswering(config).eval()
    model.save_pretrained(os.path.join(HERE, "model"))
    return model


def main():
    model = save_model()
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(HERE, "model"))
    rows = []
    for question, context in TEXTS:
        for options in OPTIONS:
            rows.append({"question": question, "context": context, "options": options,
                         "answers": answers(model, tokenizer, question, context, **options)})
    with open(os.path.join(HERE, "answers.json"), "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1, ensure_ascii=False, default=float)


if __name__ == "__main__":
    main()
