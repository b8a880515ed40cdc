# SPDX-License-Identifier: Apache-2.0
"""pipeline(): results that JSON does not hold, and tasks that nobody names."""
import unittest

from golden_cases import GOLDEN
from transom import pipeline
from transom.errors import UsageError


@unittest.skipUnless(GOLDEN.is_dir(), "the golden models lie beside a build")
class PipelinesTest(unittest.TestCase):
    def test_depths_are_tensors_and_pictures(self):
        estimate = pipeline(model=str(GOLDEN / "depth-anything" / "model"))
        self.assertEqual(estimate.task, "depth-estimation")
        path = GOLDEN / "image" / "gradient.png"
        result = estimate(str(path))
        self.assertEqual(tuple(result["predicted_depth"].shape), (43, 57))
        depth = result["depth"]
        if hasattr(depth, "getextrema"):  # a picture of PIL, where it is installed
            self.assertEqual((depth.size, depth.mode), ((57, 43), "L"))
            self.assertEqual(depth.getextrema(), (0, 255))
        else:
            self.assertTrue(depth.png.startswith(b"\x89PNG"))
        several = estimate([str(path), path.read_bytes()])
        self.assertEqual(len(several), 2)
        self.assertEqual(several[0]["predicted_depth"].tolist(), several[1]["predicted_depth"].tolist())
        with self.assertRaises(UsageError):
            estimate(str(path), timeout=3.0)

    def test_rankings(self):
        rank = pipeline("text-ranking", model=str(GOLDEN / "cross-encoder" / "model"))
        asked = {"query": "a program", "documents": ["No warranty", "A small model"]}
        best = rank(asked, top_k=1, return_documents=True)
        self.assertEqual(len(best), 1)
        self.assertEqual(best[0]["text"], asked["documents"][best[0]["corpus_id"]])


if __name__ == "__main__":
    unittest.main()
