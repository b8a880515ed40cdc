# SPDX-License-Identifier: Apache-2.0
"""Vectors of texts and rankers with the names of sentence-transformers: change the import, keep the script.

    from transom import CrossEncoder, SentenceTransformer, mine_hard_negatives, semantic_search

Results are arrays of numpy, or tensors of torch where they are asked for (convert_to_tensor=True), or where scores are
of such.
"""
import json
import os

from .errors import UnsupportedError, UsageError
from .hub import directory_of, hub_arguments
from .tensors import _numpy, as_numpy, as_torch, is_torch, to_tensor

# Arguments of the library that change nothing here: there is one backend, and no code of a model's own is run.
_WITHOUT_MEANING = ("trust_remote_code", "cache_folder", "use_auth_token", "backend", "model_card_data",
                    "show_progress_bar", "pool", "chunk_size")
_NORMALIZED, _PLAIN = "cosine", "dot"


def _settings(directory, name):
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _keywords(what, keywords):
    """Those of the Hub; others have no meaning, or are refused by name."""
    if keywords.get("cache_folder") is not None:
        keywords["cache_dir"] = keywords["cache_folder"]
    hub, rest = hub_arguments({name: value for name, value in keywords.items() if name != "cache_folder"})
    for name, value in rest.items():
        if name not in _WITHOUT_MEANING and value is not None:
            raise UnsupportedError(f"{what}: {name} is not supported; leave it out", "unsupported")
    return hub


def _array(values, what):
    """Vectors as an array [N, D] of f32."""
    numpy = _numpy(what)
    if isinstance(values, (list, tuple)):
        values = [as_numpy(each) for each in values]
    else:
        values = as_numpy(values)
    array = numpy.asarray(values, dtype=numpy.float32)
    return array.reshape(1, -1) if array.ndim == 1 else array


def _unit(array):
    numpy = _numpy("a similarity")
    return array / numpy.maximum(numpy.linalg.norm(array, axis=1, keepdims=True), 1e-12)


def _as_given(array, *given):
    """A tensor of torch where one of the arguments is of torch."""
    some = [each for one in given for each in (one if isinstance(one, (list, tuple)) else [one])]
    return as_torch(to_tensor(array)) if any(is_torch(each) for each in some) else array


def dot_score(a, b):
    """[N, D], [M, D] -> [N, M]"""
    return _as_given(_array(a, "dot_score") @ _array(b, "dot_score").T, a, b)


def cos_sim(a, b):
    """[N, D], [M, D] -> [N, M]"""
    return _as_given(_unit(_array(a, "cos_sim")) @ _unit(_array(b, "cos_sim")).T, a, b)


def _distances(a, b, order):
    numpy = _numpy("a similarity")
    return -numpy.stack([numpy.linalg.norm(b - row, ord=order, axis=1) for row in a]) if len(a) else a @ b.T


def euclidean_sim(a, b):
    return _as_given(_distances(_array(a, "euclidean_sim"), _array(b, "euclidean_sim"), 2), a, b)


def manhattan_sim(a, b):
    return _as_given(_distances(_array(a, "manhattan_sim"), _array(b, "manhattan_sim"), 1), a, b)


_SIMILARITIES = {_NORMALIZED: cos_sim, _PLAIN: dot_score, "euclidean": euclidean_sim, "manhattan": manhattan_sim}


def _pairwise(name, a, b):
    numpy = _numpy("a similarity")
    a, b = _array(a, "similarity_pairwise"), _array(b, "similarity_pairwise")
    if a.shape != b.shape:
        raise UsageError(f"similarity_pairwise: expected as many vectors on both sides, found {a.shape} and {b.shape}")
    if name == _NORMALIZED:
        return (_unit(a) * _unit(b)).sum(axis=1)
    if name == _PLAIN:
        return (a * b).sum(axis=1)
    return -numpy.linalg.norm(a - b, ord=2 if name == "euclidean" else 1, axis=1)


def _texts_of(value, what):
    if hasattr(value, "tolist"):
        value = value.tolist()
    texts = list(value)
    for text in texts:
        if not isinstance(text, str):
            raise UnsupportedError(f"{what}: expected texts, found {type(text).__name__}", "unsupported")
    return texts


class SentenceTransformer:
    """Texts to vectors, as modules.json of a directory (or of an id of the Hub) says; without one the mean of the
    tokens. Of SPLADE's models vectors are the weights of all tokens."""

    def __init__(self, model_name_or_path=None, modules=None, device=None, prompts=None, default_prompt_name=None,
                 similarity_fn_name=None, truncate_dim=None, **keywords):
        from .pipelines import pipeline

        if model_name_or_path is None or modules is not None:
            raise UnsupportedError("SentenceTransformer: expected a directory or an id, whose modules.json is read",
                                   "unsupported")
        hub = _keywords("SentenceTransformer", keywords)
        directory = str(directory_of(model_name_or_path, hub))
        self._pipe = pipeline("feature-extraction", model=directory, device=device)
        settings = _settings(directory, "config_sentence_transformers.json")
        self.is_sparse = settings.get("model_type") == "SparseEncoder"
        self.prompts = {**(settings.get("prompts") or {}), **(prompts or {})}
        self.default_prompt_name = default_prompt_name or settings.get("default_prompt_name")
        for name in ("query", "document"):  # which each model has
            self.prompts.setdefault(name, "")
        if self.default_prompt_name and self.default_prompt_name not in self.prompts:
            raise UsageError(f"default_prompt_name: expected {_one_of(self.prompts)}, found "
                             f"{self.default_prompt_name!r}")
        usual = _PLAIN if self.is_sparse else _NORMALIZED
        self.similarity_fn_name = similarity_fn_name or settings.get("similarity_fn_name") or usual
        if self.similarity_fn_name not in _SIMILARITIES:
            raise UsageError(f"similarity_fn_name: expected {_one_of(_SIMILARITIES)}, found "
                             f"{self.similarity_fn_name!r}")
        self.truncate_dim = truncate_dim
        self._width = None

    def encode(self, sentences=None, prompt_name=None, prompt=None, batch_size=32, output_value="sentence_embedding",
               precision="float32", convert_to_numpy=True, convert_to_tensor=False, device=None,
               normalize_embeddings=False, truncate_dim=None, max_active_dims=None, inputs=None, **keywords):
        """One vector for a text, [N, D] for several: an array of numpy, a tensor of torch with convert_to_tensor, a
        list of tensors where neither is wanted."""
        sentences = inputs if sentences is None else sentences
        if sentences is None:
            raise UsageError("encode: expected a text or a list of texts")
        if output_value != "sentence_embedding" or precision != "float32":
            raise UnsupportedError("encode: output_value 'sentence_embedding' and precision 'float32' are supported, "
                                   f"found {output_value!r} and {precision!r}", "unsupported")
        for name, value in keywords.items():
            if name not in _WITHOUT_MEANING and value is not None:
                raise UsageError(f"encode: {name} is no argument")
        if device is not None:
            raise UnsupportedError("encode: device is that of SentenceTransformer(..., device=)", "unsupported")
        one = isinstance(sentences, str)
        texts = [sentences] if one else _texts_of(sentences, "encode")
        parameters = {"pooling": "auto", "batch_size": batch_size}
        if normalize_embeddings:
            parameters["normalize_embeddings"] = True
        if (truncate_dim or self.truncate_dim) is not None:
            parameters["truncate_dim"] = truncate_dim or self.truncate_dim
        if max_active_dims is not None:
            parameters["max_active_dims"] = max_active_dims
        chosen = self._prompt(prompt_name, prompt)
        if chosen is not None:
            parameters["prompt"] = chosen
        numpy = _numpy("encode")
        vectors = numpy.asarray(self._pipe(texts, **parameters), dtype=numpy.float32) if texts else numpy.zeros(
            (0, self.get_embedding_dimension() if convert_to_tensor else 0), dtype=numpy.float32)
        if convert_to_tensor:
            vectors = as_torch(to_tensor(vectors))
        elif not convert_to_numpy:
            vectors = [as_torch(to_tensor(each)) for each in vectors]
        return vectors[0] if one else vectors

    def _prompt(self, name, prompt):
        if prompt is not None:
            return prompt
        name = name or self.default_prompt_name
        if name is None:
            return None
        if name not in self.prompts:
            raise UsageError(f"prompt_name: expected {_one_of(self.prompts)}, found {name!r}")
        return self.prompts[name]

    def _encode_as(self, names, sentences, prompt_name, prompt, keywords):
        if prompt_name is None and prompt is None:
            prompt_name = next((name for name in names if name in self.prompts), None)
        return self.encode(sentences, prompt_name=prompt_name, prompt=prompt, **keywords)

    def encode_query(self, sentences, prompt_name=None, prompt=None, **keywords):
        """encode() with the prompt `query`, where the model has one."""
        return self._encode_as(("query",), sentences, prompt_name, prompt, keywords)

    def encode_document(self, sentences, prompt_name=None, prompt=None, **keywords):
        """encode() with the prompt `document`, `passage` or `corpus`, where the model has one."""
        return self._encode_as(("document", "passage", "corpus"), sentences, prompt_name, prompt, keywords)

    def similarity(self, embeddings1, embeddings2):
        """[N, D], [M, D] -> [N, M], by similarity_fn_name."""
        return _SIMILARITIES[self.similarity_fn_name](embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1, embeddings2):
        """[N, D], [N, D] -> [N]"""
        return _as_given(_pairwise(self.similarity_fn_name, embeddings1, embeddings2), embeddings1, embeddings2)

    def get_embedding_dimension(self):
        if self._width is None:
            self._width = len(self.encode("a"))
        return self._width

    get_sentence_embedding_dimension = get_embedding_dimension


def _one_of(names):
    return " or ".join(repr(name) for name in names) if names else "nothing, since the model has no prompts"


class CrossEncoder:
    """Scores of pairs of texts: of a classifier of pairs, or of a language model that answers yes or no."""

    def __init__(self, model_name_or_path, num_labels=None, max_length=None, activation_fn=None, device=None,
                 **keywords):
        from .pipelines import pipeline

        hub = _keywords("CrossEncoder", keywords)
        directory = str(directory_of(model_name_or_path, hub))
        config = _settings(directory, "config.json")
        classes = config.get("id2label") or {}
        labels = [label for _, label in sorted(classes.items(), key=lambda each: int(each[0]))]
        writes = str((config.get("architectures") or [""])[0]).endswith("ForCausalLM")
        self.num_labels = 1 if writes else len(labels) or config.get("num_labels", 2)
        if num_labels is not None and num_labels != self.num_labels:
            raise UnsupportedError(f"CrossEncoder: num_labels: the model has {self.num_labels}, found {num_labels}",
                                   "unsupported")
        self._labels = labels or [f"LABEL_{i}" for i in range(self.num_labels)]
        self.max_length, self.activation_fn = max_length, activation_fn
        self._pipe = pipeline("text-ranking" if self.num_labels == 1 else "text-classification", model=directory,
                              device=device)

    def predict(self, sentences=None, batch_size=32, activation_fn=None, apply_softmax=False, convert_to_numpy=True,
                convert_to_tensor=False, inputs=None, prompt=None, **keywords):
        """The score of each pair, [N], or [N, classes]. activation_fn: a module of torch or a function of an array."""
        sentences = inputs if sentences is None else sentences
        for name, value in keywords.items():
            if name not in _WITHOUT_MEANING and value is not None:
                raise UsageError(f"predict: {name} is no argument")
        one = len(sentences) == 2 and isinstance(sentences[0], str)
        pairs = [tuple(sentences)] if one else [tuple(pair) for pair in sentences]
        for pair in pairs:
            if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise UsageError(f"predict: expected pairs of texts, found {pair!r}")
        function = activation_fn or self.activation_fn
        scores = self._scores(pairs, function is not None, batch_size, prompt)
        if function is not None:
            scores = _applied(function, scores)
        if apply_softmax and self.num_labels > 1:
            numpy = _numpy("predict")
            scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            scores = scores / scores.sum(axis=1, keepdims=True)
        if convert_to_tensor or not convert_to_numpy:
            scores = as_torch(to_tensor(scores))
            scores = scores if convert_to_tensor else list(scores)
        return scores[0] if one else scores

    def _scores(self, pairs, raw, batch_size, prompt=None):
        numpy = _numpy("predict")
        if self.num_labels > 1:
            if prompt is not None:
                raise UsageError("predict: prompt is for language models that rank")
            parameters = {"function_to_apply": "none", "top_k": None, "batch_size": batch_size, "truncation": True}
            if self.max_length is not None:
                parameters["max_length"] = self.max_length
            results = self._pipe([{"text": a, "text_pair": b} for a, b in pairs], **parameters)
            rows = [{each["label"]: each["score"] for each in result} for result in results]
            return numpy.asarray([[row[label] for label in self._labels] for row in rows], dtype=numpy.float32)
        parameters = {"batch_size": batch_size}
        if raw:
            parameters["function_to_apply"] = "none"
        if self.max_length is not None:
            parameters["max_length"] = self.max_length
        if prompt is not None:
            parameters["prompt"] = prompt
        places = {}  # of each query those of its pairs; batches are made of the pairs of all queries
        for place, (query, _) in enumerate(pairs):
            places.setdefault(query, []).append(place)
        asked = [{"query": query, "documents": [pairs[place][1] for place in its]} for query, its in places.items()]
        scores = numpy.zeros(len(pairs), dtype=numpy.float32)
        for its, matches in zip(places.values(), self._pipe(asked, **parameters) if asked else []):
            for match in matches:
                scores[its[match["corpus_id"]]] = match["score"]
        return scores

    def rank(self, query, documents, top_k=None, return_documents=False, batch_size=32, activation_fn=None,
             prompt=None, **keywords):
        """[{"corpus_id", "score"}], and "text" with return_documents, by falling score."""
        if self.num_labels != 1:
            raise UsageError(f"rank: expected a model with one score for a pair, found {self.num_labels} classes")
        documents = _texts_of(documents, "rank")
        scores = self.predict([(query, document) for document in documents], batch_size=batch_size,
                              activation_fn=activation_fn, prompt=prompt, **keywords) if documents else []
        order = sorted(range(len(documents)), key=lambda place: -float(scores[place]))
        return [{"corpus_id": place, "score": scores[place],
                 **({"text": documents[place]} if return_documents else {})} for place in order[:top_k]]


def _applied(function, scores):
    try:
        import torch
    except ImportError:
        return as_numpy(function(scores))
    given = as_torch(to_tensor(scores)) if isinstance(function, torch.nn.Module) else scores
    return as_numpy(function(given))


def semantic_search(query_embeddings, corpus_embeddings, query_chunk_size=100, corpus_chunk_size=500000, top_k=10,
                    score_function=cos_sim):
    """For each query its closest vectors of the corpus: [[{"corpus_id", "score"}]], by falling score."""
    numpy = _numpy("semantic_search")
    queries, corpus = _array(query_embeddings, "semantic_search"), _array(corpus_embeddings, "semantic_search")
    found = [[] for _ in queries]
    for begin in range(0, len(corpus), corpus_chunk_size):
        part = corpus[begin:begin + corpus_chunk_size]
        for first in range(0, len(queries), query_chunk_size):
            scores = as_numpy(score_function(queries[first:first + query_chunk_size], part))
            for row, of_query in enumerate(scores):
                for place in numpy.argsort(-of_query, kind="stable")[:top_k]:
                    found[first + row].append((float(of_query[place]), begin + int(place)))
    return [[{"corpus_id": place, "score": score} for score, place in sorted(each, key=lambda one: -one[0])[:top_k]]
            for each in found]
