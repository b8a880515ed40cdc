# SPDX-License-Identifier: Apache-2.0
"""SentenceTransformer, CrossEncoder and what is made of them, against what sentence-transformers gave."""
import json
import random
import unittest

from golden_cases import GOLDEN
from transom import CrossEncoder, SentenceTransformer, cos_sim, mine_hard_negatives, semantic_search
from transom.errors import UnsupportedError, UsageError

try:
    import numpy
except ImportError:
    numpy = None


def read(name):
    with open(GOLDEN / name, encoding="utf-8") as file:
        return json.load(file)


def near(test, found, expected):
    """Texts are equal, and numbers to a few roundings of f32."""
    if isinstance(expected, dict):
        test.assertEqual(set(found), set(expected))
        for name in expected:
            near(test, found[name], expected[name])
    elif isinstance(expected, list):
        test.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            near(test, one, other)
    elif isinstance(expected, float):
        test.assertAlmostEqual(float(found), expected, delta=2e-5)
    else:
        test.assertEqual(found, expected)


@unittest.skipUnless(GOLDEN.is_dir() and numpy is not None, "the golden models lie beside a build; vectors are of numpy")
class SentencesTest(unittest.TestCase):
    def test_vectors_and_the_closest(self):
        about = read("sentences/hard-negatives.json")
        model = SentenceTransformer(str(GOLDEN / "sentences" / "models" / "bert"))
        vectors = model.encode(about["texts"])
        self.assertEqual((vectors.shape, vectors.dtype), ((2, 16), numpy.float32))
        near(self, vectors.tolist(), about["vectors"])
        self.assertEqual(model.encode(about["texts"][0]).tolist(), vectors[0].tolist())
        self.assertEqual(model.get_sentence_embedding_dimension(), 16)
        unit = model.encode(about["texts"], normalize_embeddings=True)
        self.assertAlmostEqual(float((unit[0] ** 2).sum()), 1, places=5)
        near(self, model.similarity(vectors, vectors)[0][1], float((unit[0] * unit[1]).sum()))
        self.assertAlmostEqual(float(model.similarity_pairwise(vectors, vectors)[1]), 1, places=5)
        corpus = model.encode(about["corpus"])
        near(self, semantic_search(model.encode(about["query"]), corpus, top_k=3), about["closest"])
        # In parts as at once, but for the order of sums in a product.
        near(self, semantic_search(vectors, corpus, query_chunk_size=1, corpus_chunk_size=5, top_k=4),
             semantic_search(vectors, corpus, top_k=4))
        self.assertEqual(cos_sim(vectors, corpus).shape, (2, len(about["corpus"])))

    def test_hard_negatives(self):
        about = read("sentences/hard-negatives.json")
        model = SentenceTransformer(str(GOLDEN / "sentences" / "models" / "bert"))
        table = {name: [row[name] for row in about["rows"]] for name in about["rows"][0]}
        for case in about["cases"]:
            with self.subTest(**case["options"]):
                random.seed(7)
                near(self, mine_hard_negatives(table, model, verbose=False, **case["options"]), case["columns"])
        rows = mine_hard_negatives(about["rows"], model, verbose=False)
        self.assertEqual(rows[0]["negative"], about["cases"][0]["columns"]["negative"][0])
        for wrong in (dict(num_negatives=0), dict(output_format="pairs"), dict(sampling_strategy="last")):
            with self.assertRaises(UsageError):
                mine_hard_negatives(table, model, verbose=False, **wrong)
        with self.assertRaises(UnsupportedError):
            mine_hard_negatives(table, model, use_faiss=True)

    def test_weights_of_tokens(self):
        about = read("sentences/splade-vectors.json")
        model = SentenceTransformer(str(GOLDEN / "sentences" / "models" / "splade"))
        vectors = model.encode(about["texts"])
        near(self, vectors.tolist(), about["vectors"])
        few = model.encode(about["texts"], max_active_dims=about["max_active_dims"])
        self.assertEqual([int((row > 0).sum()) for row in few], [len(row) for row in about["few"]])
        self.assertAlmostEqual(float(model.similarity(vectors[:1], vectors[1:])[0][0]), about["similarity"], delta=0.01)

    def test_rankers(self):
        ranker = CrossEncoder(str(GOLDEN / "cross-encoder" / "model"))
        for run in read("pipelines/text-ranking.json")["runs"]:
            query, documents, asked = run["inputs"]["query"], run["inputs"]["documents"], dict(run["kwargs"])
            if asked.pop("function_to_apply", None) == "none":
                scores = ranker.predict([(query, each) for each in documents], activation_fn=lambda scores: scores)
            else:
                near(self, ranker.rank(query, documents, **asked), run["result"])
                scores = ranker.predict([(query, each) for each in documents])
            for each in run["result"]:
                near(self, scores[each["corpus_id"]], each["score"])
        self.assertEqual(ranker.predict(("a", "b")), ranker.predict([("a", "b")])[0])
        with self.assertRaises(UsageError):
            ranker.predict(["one text"])

    def test_what_is_not_there_is_refused_by_name(self):
        model = SentenceTransformer(str(GOLDEN / "sentences" / "models" / "bert"))
        with self.assertRaises(UnsupportedError):
            model.encode("a", precision="int8")
        with self.assertRaises(UsageError):
            model.encode("a", prompt_name="passage")
        with self.assertRaises(UnsupportedError):
            SentenceTransformer(modules=[])


if __name__ == "__main__":
    unittest.main()
