# SPDX-License-Identifier: Apache-2.0
import pickle
import unittest

import tiny
from transom import AutoTokenizer


class TokenizationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tiny.bert()
        cls.tokenizer = AutoTokenizer.from_pretrained(cls.holder.name)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_one_text(self):
        encoded = self.tokenizer("the films")
        self.assertEqual(encoded["input_ids"], [2, 5, 7, 16, 3])
        self.assertEqual(encoded.attention_mask, [1] * 5)
        self.assertEqual(encoded.tokens(), ["[CLS]", "the", "film", "##s", "[SEP]"])
        self.assertEqual(encoded.word_ids(), [None, 0, 1, 1, None])
        self.assertEqual(self.tokenizer.decode(encoded["input_ids"], skip_special_tokens=True), "the films")

    def test_batches_are_padded_and_truncated(self):
        encoded = self.tokenizer(["the film", "a very very long film"], padding=True, truncation=True, max_length=6)
        self.assertEqual(encoded["input_ids"], [[2, 5, 7, 3, 0, 0], [2, 6, 13, 13, 11, 3]])
        self.assertEqual(encoded["attention_mask"][0], [1, 1, 1, 1, 0, 0])
        self.assertEqual(encoded.word_ids(0), [None, 0, 1, None, None, None])
        left = self.tokenizer(["the film", "a very long film"], padding=True, padding_side="left")
        self.assertEqual(left["input_ids"][0], [0, 0, 2, 5, 7, 3])
        self.assertEqual(left.word_ids(0), [None, None, None, 0, 1, None])

    def test_pairs(self):
        encoded = self.tokenizer("the film", "a cup", return_offsets_mapping=True)
        self.assertEqual(encoded["token_type_ids"], [0, 0, 0, 0, 1, 1, 1])
        self.assertEqual(encoded.sequence_ids(), [None, 0, 0, None, 1, 1, None])
        self.assertEqual(encoded["offset_mapping"][1:3], [(0, 3), (4, 8)])
        self.assertEqual(self.tokenizer([("the", "a")])["input_ids"], [[2, 5, 3, 6, 3]])

    def test_overflowing_windows(self):
        encoded = self.tokenizer(["the film is very long"], truncation=True, max_length=5, stride=1,
                                 return_overflowing_tokens=True)
        self.assertEqual(encoded["overflow_to_sample_mapping"], [0, 0])
        self.assertEqual(encoded["input_ids"], [[2, 5, 7, 8, 3], [2, 8, 13, 11, 3]])

    def test_words(self):
        encoded = self.tokenizer([["the", "films"], ["cup"]], is_split_into_words=True, padding=True)
        self.assertEqual(encoded["input_ids"], [[2, 5, 7, 16, 3], [2, 17 + 1, 3, 0, 0]])
        self.assertEqual(encoded.word_ids(0), [None, 0, 1, 1, None])

    def test_pad(self):
        rows = [{"input_ids": [2, 5, 3], "label": 1}, {"input_ids": [2, 3], "label": 0}]
        padded = self.tokenizer.pad(rows)
        self.assertEqual(padded["input_ids"], [[2, 5, 3], [2, 3, 0]])
        self.assertEqual(padded["attention_mask"], [[1, 1, 1], [1, 1, 0]])
        self.assertEqual(padded["label"], [1, 0])
        self.assertEqual(self.tokenizer.pad(rows, pad_to_multiple_of=4)["input_ids"][1], [2, 3, 0, 0])

    def test_tensors(self):
        encoded = self.tokenizer(["the film", "cup"], padding=True, return_tensors="tr")
        self.assertEqual(encoded["input_ids"].shape, (2, 4))
        self.assertEqual(encoded["input_ids"].tolist()[1], [2, 18, 3, 0])
        with self.assertRaisesRegex(ValueError, "padding=True"):
            self.tokenizer(["the film", "cup"], return_tensors="tr")

    def test_special_tokens(self):
        self.assertEqual(self.tokenizer.pad_token_id, 0)
        self.assertEqual(self.tokenizer.mask_token, "[MASK]")
        copy = pickle.loads(pickle.dumps(self.tokenizer))
        copy.pad_token = copy.unk_token
        self.assertEqual((copy.pad_token_id, self.tokenizer.pad_token_id), (1, 0))
        self.assertEqual(copy("the cup"), self.tokenizer("the cup"))

    def test_wrong_calls(self):
        for call in (dict(text=3), dict(text="a", padding="some"), dict(text="a", colour=1), dict(text=["a", 4])):
            with self.assertRaises((ValueError, TypeError), msg=str(call)):
                self.tokenizer(**call)


if __name__ == "__main__":
    unittest.main()
