# SPDX-License-Identifier: Apache-2.0
"""image-text-to-text: the forms of a call, with the results that Transformers' pipeline gave."""
import json
import os
import unittest

from golden_cases import GOLDEN
from transom import pipeline

GREEDY = {"max_new_tokens": 10, "generate_kwargs": {"do_sample": False}}


def picture(name):
    return os.path.join(GOLDEN, "image", name)


@unittest.skipUnless(os.path.isdir(GOLDEN), "the golden models lie beside a build")
class PictureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(GOLDEN, "pipelines", "image-text-to-text.json"), encoding="utf-8") as file:
            cls.results = [run["result"] for run in json.load(file)["runs"]]
        cls.look = pipeline("image-text-to-text", model=os.path.join(GOLDEN, "llava", "model"))

    def test_texts(self):
        image = picture("gradient.png")
        self.assertEqual(self.look(image, text="<image>\nThe licence", **GREEDY), self.results[0])
        self.assertEqual(self.look({"images": image, "text": "<image>\nThe licence"}, **GREEDY), self.results[0])
        both = self.look(images=[picture("gray.png"), picture("alpha.png")], text="<image> and <image>: you may",
                         **GREEDY)
        self.assertEqual(both, self.results[1])
        self.assertEqual(self.look(text="The licence", **GREEDY), self.results[3])
        with open(image, "rb") as file:
            self.assertEqual(self.look(file.read(), text="<image>\nThe licence", **GREEDY), self.results[0])

    def test_chats(self):
        chat = [{"role": "user", "content": [{"type": "image", "path": picture("gradient.png")},
                                             {"type": "text", "text": "What is it?"}]}]
        for result in (self.look(chat, **GREEDY), self.look(text=chat, **GREEDY)):
            self.assertEqual(result[0]["input_text"], chat)
            self.assertEqual(result[0]["generated_text"], chat + self.results[4][0]["generated_text"][-1:])
        answer = self.look(text=chat, return_full_text=False, **GREEDY)
        self.assertEqual(answer[0]["generated_text"], self.results[5][0]["generated_text"])

    def test_pictures_of_pil(self):
        try:
            import PIL.Image
        except ImportError:
            self.skipTest("PIL is not installed")
        chat = [{"role": "user", "content": [{"type": "image", "image": PIL.Image.open(picture("gradient.png"))},
                                             {"type": "text", "text": "What is it?"}]}]
        answer = self.look(text=chat, return_full_text=False, **GREEDY)
        self.assertEqual(answer[0]["generated_text"], self.results[5][0]["generated_text"])

    def test_refusals(self):
        with self.assertRaisesRegex(Exception, "2 <image> for pictures, and 1"):
            self.look(picture("gray.png"), text="<image> <image>", **GREEDY)
        with self.assertRaisesRegex(Exception, "expected a chat, or images and text"):
            self.look(**GREEDY)


if __name__ == "__main__":
    unittest.main()
