# SPDX-License-Identifier: Apache-2.0
"""mine_hard_negatives(): texts that a model finds close to a query and that do not answer it, as
sentence-transformers chooses them."""
import random
import sys

from .errors import UnsupportedError, UsageError
from .sentences import semantic_search
from .tensors import _numpy

_FORMATS = ("triplet", "n-tuple", "labeled-pair", "labeled-list")


def _columns(dataset):
    """The columns of a data set of `datasets`, of a list of rows, or of a table of lists."""
    if isinstance(dataset, dict):
        return {name: list(values) for name, values in dataset.items()}
    if hasattr(dataset, "column_names"):
        return {name: list(dataset[name]) for name in dataset.column_names}
    rows = list(dataset)
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}


def _like(dataset, columns):
    if isinstance(dataset, dict):
        return columns
    module = sys.modules.get("datasets")
    if module is not None and isinstance(dataset, module.Dataset):
        return module.Dataset.from_dict(columns)
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def mine_hard_negatives(dataset, model, anchor_column_name=None, positive_column_name=None, corpus=None,
                        cross_encoder=None, range_min=0, range_max=None, max_score=None, min_score=None,
                        absolute_margin=None, relative_margin=None, num_negatives=3, sampling_strategy="top",
                        query_prompt_name=None, query_prompt=None, corpus_prompt_name=None, corpus_prompt=None,
                        include_positives=False, output_format="triplet", output_scores=False, batch_size=32,
                        faiss_batch_size=16384, use_faiss=False, use_multi_process=False, verbose=True,
                        cache_folder=None):
    """Rows with negatives, of rows with a query and what answers it: `dataset` is a Dataset, a list of rows or a table
    of lists, and so is the result."""
    if use_faiss or use_multi_process or cache_folder:
        raise UnsupportedError("mine_hard_negatives: use_faiss, use_multi_process and cache_folder are not supported; "
                               "leave them out", "unsupported")
    if sampling_strategy not in ("top", "random"):
        raise UsageError(f"sampling_strategy: expected 'top' or 'random', found {sampling_strategy!r}")
    if include_positives:
        output_format = "n-tuple"  # which keeps the order
    if output_format not in _FORMATS:
        raise UsageError(f"output_format: expected one of {', '.join(_FORMATS)}, found {output_format!r}")
    columns = _columns(dataset)
    if len(columns) < 2 or not next(iter(columns.values())):
        raise UsageError("mine_hard_negatives: expected rows with a query and what answers it, found none")
    names = list(columns)
    anchor, positive = anchor_column_name or names[0], positive_column_name or names[1]
    positives_of = {}  # of each query its answers, once each
    for query, answer in zip(columns[anchor], columns[positive]):
        positives_of.setdefault(query, {})[answer] = None
    per_query = {}
    for query in columns[anchor]:
        per_query[query] = per_query.get(query, 0) + 1
    most = max(per_query.values())
    filtered = any(each is not None for each in (max_score, absolute_margin, relative_margin)) or (
        cross_encoder is not None and min_score is not None)
    if range_max is None:
        range_max = range_min + num_negatives * (10 if filtered else 1) + most
    if num_negatives < 1 or range_min < 0 or num_negatives > range_max - range_min:
        raise UsageError(f"mine_hard_negatives: expected at least one negative within range_min {range_min} and "
                         f"range_max {range_max}, found num_negatives {num_negatives}")

    texts = list(dict.fromkeys((list(corpus) if corpus is not None else []) + columns[positive]))
    queries = list(positives_of)
    of_queries = model.encode_query(queries, prompt_name=query_prompt_name, prompt=query_prompt,
                                    batch_size=batch_size, normalize_embeddings=True)
    of_texts = model.encode_document(texts, prompt_name=corpus_prompt_name, prompt=corpus_prompt,
                                     batch_size=batch_size, normalize_embeddings=True)
    place_of = {text: place for place, text in enumerate(texts)}
    found = semantic_search(of_queries, of_texts, query_chunk_size=faiss_batch_size, top_k=range_max + most,
                            score_function=model.similarity)
    rescores = cross_encoder is not None and any(
        each is not None for each in (absolute_margin, relative_margin, max_score, min_score))
    mined, skipped = [], 0
    for number, query in enumerate(queries):
        answers = list(positives_of[query])
        candidates = [(each["score"], each["corpus_id"]) for each in found[number]]
        if rescores:
            scores = cross_encoder.predict([(query, texts[place]) for _, place in candidates], batch_size=batch_size)
            candidates = [(float(score), place) for score, (_, place) in zip(scores, candidates)]
            own = [float(each) for each in cross_encoder.predict([(query, each) for each in answers],
                                                                 batch_size=batch_size)]
        else:
            row = of_queries[number:number + 1]
            own = [float(model.similarity_pairwise(row, of_texts[place_of[each]][None])[0]) for each in answers]
        keep = _keeper(min(own), max_score, min_score, absolute_margin, relative_margin)
        wanted = [each for each in candidates if include_positives or texts[each[1]] not in positives_of[query]]
        kept = sorted((each for each in wanted if keep(each[0])), key=lambda each: -each[0])
        skipped += len(wanted) - len(kept)
        kept = kept[:range_max][range_min:]
        if sampling_strategy == "random":
            drawn = random.sample(range(max(len(kept), num_negatives)), k=num_negatives)
            kept = [kept[place] for place in sorted(drawn) if place < len(kept)]
        mined.append((query, answers, own, [(score, texts[place]) for score, place in kept[:num_negatives]]))
    if verbose:
        count = sum(len(negatives) for *_, negatives in mined)
        print(f"{count} negatives of {len(queries)} queries; {skipped} candidates were left out by their scores")
    return _like(dataset, _table(mined, anchor, positive, num_negatives, output_format, output_scores))


def _keeper(least, max_score, min_score, absolute_margin, relative_margin):
    """Whether a score is that of a negative, beside the least score of an answer. In f32, as scores are."""
    single = _numpy("mine_hard_negatives").float32
    least = single(least)

    def keep(score):
        score = single(score)
        if absolute_margin is not None and score + single(absolute_margin) > least:
            return False
        if relative_margin is not None and score > least - abs(least) * single(relative_margin):
            return False
        if max_score is not None and score > single(max_score):
            return False
        return min_score is None or not score < single(min_score)

    return keep


def _table(mined, anchor, positive, num_negatives, form, with_scores):
    rows = []
    for query, answers, own, negatives in mined:
        if form == "labeled-pair":
            label = "score" if with_scores else "label"
            rows += [{anchor: query, positive: each, label: score if with_scores else 1}
                     for each, score in zip(answers, own)]
            rows += [{anchor: query, positive: text, label: score if with_scores else 0} for score, text in negatives]
            continue
        for answer, score in zip(answers, own):
            scores = [score] + [each for each, _ in negatives]
            if form == "triplet":
                rows += [{anchor: query, positive: answer, "negative": text,
                          **({"scores": [score, each]} if with_scores else {})} for each, text in negatives]
            elif form == "n-tuple" and len(negatives) == num_negatives:
                rows.append({anchor: query, positive: answer,
                             **{f"negative_{i}": text for i, (_, text) in enumerate(negatives, start=1)},
                             **({"scores": scores} if with_scores else {})})
            elif form == "labeled-list" and negatives:
                label, values = ("scores", scores) if with_scores else ("labels", [1] + [0] * len(negatives))
                rows.append({anchor: query, positive: [answer] + [text for _, text in negatives], label: values})
    names = list(rows[0]) if rows else [anchor, positive]
    return {name: [row[name] for row in rows] for name in names}
