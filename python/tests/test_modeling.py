# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import tempfile
import threading
import time
import unittest

import tiny
from transom import (AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer,
                     GenerationConfig, TextIteratorStreamer, pipeline)

try:
    import numpy
except ImportError:
    numpy = None


class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tiny.bert(num_labels=3)
        cls.tokenizer = AutoTokenizer.from_pretrained(cls.holder.name)
        cls.model = AutoModelForSequenceClassification.from_pretrained(cls.holder.name)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_call(self):
        inputs = self.tokenizer(tiny.TEXTS[:2], padding=True)
        output = self.model(**inputs, labels=[0, 2])
        self.assertEqual(output.logits.shape, (2, 3))
        self.assertEqual(output[0].tolist(), output.loss.tolist())
        expected = output.logits.log_softmax(-1)
        by_hand = -(expected[0, 0].item() + expected[1, 2].item()) / 2
        self.assertAlmostEqual(output.loss.item(), by_hand, places=5)
        self.assertIsNone(output.pooler_output)
        with self.assertRaises(AttributeError):
            output.smell
        as_tuple = self.model(**inputs, return_dict=False)
        self.assertEqual(len(as_tuple), 1)

    def test_a_row_answers_alone_as_in_company(self):
        alone = self.model(**self.tokenizer([tiny.TEXTS[0]])).logits.tolist()[0]
        together = self.model(**self.tokenizer(tiny.TEXTS, padding=True)).logits.tolist()[0]
        for a, b in zip(alone, together):
            self.assertAlmostEqual(a, b, places=5)

    def test_hidden_states(self):
        output = self.model(**self.tokenizer(["the film"]), output_hidden_states=True)
        self.assertEqual(len(output.hidden_states), 3)
        body = AutoModel.from_pretrained(self.holder.name)(**self.tokenizer(["the film"]))
        self.assertEqual(body.last_hidden_state.shape, (1, 4, 16))
        for a, b in zip(body.last_hidden_state.tolist()[0][0], output.hidden_states[-1].tolist()[0][0]):
            self.assertAlmostEqual(a, b, places=6)

    @unittest.skipUnless(numpy, "needs numpy")
    def test_numpy_in_and_out_without_a_copy(self):
        ids = numpy.array([[2, 5, 7, 3]])
        logits = self.model(input_ids=ids).logits
        first = logits.numpy()
        self.assertEqual(first.dtype, numpy.float32)
        self.assertEqual(first.__array_interface__["data"][0], numpy.from_dlpack(logits).__array_interface__["data"][0])
        self.assertFalse(first.flags.writeable)
        # What the array holds later is no matter of an answer that was given.
        ids[0, 1] = 6
        self.assertEqual(first.tolist(), self.model(input_ids=[[2, 5, 7, 3]]).logits.tolist())
        self.assertNotEqual(self.model(input_ids=ids).logits.tolist(), first.tolist())
        self.assertEqual(self.model(input_ids=ids[:, ::-1].astype(numpy.int32)).logits.tolist(),
                         self.model(input_ids=ids[:, ::-1].tolist()).logits.tolist())

    def test_indexing(self):
        logits = self.model(**self.tokenizer(tiny.TEXTS[:2], padding=True)).logits
        rows = logits.tolist()
        self.assertEqual(logits[1].tolist(), rows[1])
        self.assertEqual(logits[:, -1].tolist(), [row[-1] for row in rows])
        self.assertEqual(logits[..., 0:2].tolist(), [row[:2] for row in rows])
        self.assertEqual(logits.argmax(-1).tolist(), [row.index(max(row)) for row in rows])
        for key in (2, (0, 3), (0, 0, 0), 1.5):
            with self.assertRaises(IndexError):
                logits[key]

    def test_configuration(self):
        self.assertEqual(self.model.config.num_labels, 3)
        self.assertEqual(self.model.config.hidden_size, 16)
        config = AutoConfig.from_pretrained(self.holder.name, num_labels=2, hidden_dropout_prob=0.5)
        model = AutoModelForSequenceClassification.from_pretrained(self.holder.name, config=config,
                                                                   ignore_mismatched_sizes=True)
        self.assertEqual(model(input_ids=[[2, 3]]).logits.shape, (1, 2))
        self.assertEqual(model.config.hidden_dropout_prob, 0.5)
        named = AutoModelForSequenceClassification.from_pretrained(self.holder.name, id2label={0: "x", 1: "y", 2: "z"})
        self.assertEqual(named.config.label2id, {"x": 0, "y": 1, "z": 2})

    def test_saved_and_read_again(self):
        with tempfile.TemporaryDirectory() as directory:
            self.model.save_pretrained(directory)
            self.tokenizer.save_pretrained(directory)
            again = AutoModelForSequenceClassification.from_pretrained(directory)
            inputs = AutoTokenizer.from_pretrained(directory)("a bad film", return_tensors=None)
            inputs = {name: [row] for name, row in inputs.items()}
            self.assertEqual(again(**inputs).logits.tolist(), self.model(**inputs).logits.tolist())

    def test_what_cannot_be_is_said(self):
        for call in (self.model.parameters, self.model.register_forward_hook, self.model.push_to_hub):
            with self.assertRaises(NotImplementedError):
                call()
        with self.assertRaisesRegex(ValueError, "input_idz"):
            self.model(input_idz=[[1]])

    def test_keywords_are_read_noted_or_refused(self):
        from transom import AutoModelForSequenceClassification, BitsAndBytesConfig, infer_device
        from transom import logging as transom_logging

        load = AutoModelForSequenceClassification.from_pretrained
        for name in ("state_dict", "variant", "subfolder", "gguf_file", "key_mapping", "tp_plan"):
            with self.assertRaisesRegex(NotImplementedError, name):
                load(self.holder.name, **{name: "x"})
        with self.assertLogs(transom_logging.get_logger("transom.modeling"), "WARNING") as said:
            load(self.holder.name, foo=1, attn_implementation="flash_attention_2")
        self.assertIn("foo", "".join(said.output))
        self.assertIn("flash_attention_2", "".join(said.output))
        rounded = load(self.holder.name, quantization_config=BitsAndBytesConfig(load_in_8bit=True))
        ids = [[2, 5, 6, 3]]
        self.assertNotEqual(rounded(input_ids=ids).logits.tolist(), self.model(input_ids=ids).logits.tolist())
        with self.assertRaisesRegex(NotImplementedError, "load_in_8bit"):
            load(self.holder.name, quantization_config={"quant_method": "hqq"})
        self.assertEqual(infer_device(), "cpu")

    def test_labels_that_are_texts_are_named(self):
        from transom import DataCollatorWithPadding, default_data_collator

        rows = [{"input_ids": [2, 3], "label": "good"}]
        for collate in (DataCollatorWithPadding(self.tokenizer), default_data_collator):
            with self.assertRaisesRegex(ValueError, "label: expected a number, found the text 'good'"):
                collate(rows)

    def test_threads(self):
        inputs = [self.tokenizer([text]) for text in tiny.TEXTS]
        expected = [self.model(**each).logits.tolist() for each in inputs]
        found = [None] * len(inputs)

        def answer(i):
            found[i] = self.model(**inputs[i]).logits.tolist()

        threads = [threading.Thread(target=answer, args=(i,)) for i in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, expected)

    def test_pipeline(self):
        classify = pipeline("text-classification", model=self.holder.name)
        one = classify(tiny.TEXTS[0])
        self.assertEqual([set(each) for each in one], [{"label", "score"}])
        rows = classify(tiny.TEXTS, batch_size=3)
        self.assertEqual(len(rows), len(tiny.TEXTS))
        self.assertAlmostEqual(rows[0]["score"], one[0]["score"], places=5)
        everything = classify(tiny.TEXTS[0], top_k=None)
        self.assertAlmostEqual(sum(each["score"] for each in everything), 1, places=5)
        self.assertEqual([row["label"] for row in classify(text for text in tiny.TEXTS)], [r["label"] for r in rows])
        of_model = pipeline("text-classification", model=self.model, tokenizer=self.tokenizer)
        self.assertEqual(of_model(tiny.TEXTS), classify(tiny.TEXTS))
        with self.assertRaisesRegex(ValueError, "top_x"):
            classify("a", top_x=1)
        from transom.pipelines.pt_utils import KeyDataset

        column = KeyDataset([{"text": text, "label": 0} for text in tiny.TEXTS], "text")
        self.assertEqual([row["label"] for row in classify(column)], [row["label"] for row in rows])
        self.assertEqual(len(classify(tiny.TEXTS[0], return_all_scores=True)[0]), 2)
        with self.assertRaisesRegex(NotImplementedError, "model_kwargs"):
            pipeline("text-classification", model=self.holder.name, model_kwargs={"load_in_8bit": True})

    def test_vectors_of_sentences(self):
        with tiny.bert("masked") as directory:
            os.makedirs(os.path.join(directory, "1_Pooling"))
            for name, fields in (("modules.json", [{"type": "sentence_transformers.models.Transformer", "path": ""},
                                                   {"type": "sentence_transformers.models.Pooling",
                                                    "path": "1_Pooling"}]),
                                 ("1_Pooling/config.json", {"pooling_mode": ["cls", "max"]}),
                                 ("sentence_bert_config.json", {"max_seq_length": 4}),
                                 ("config_sentence_transformers.json", {"prompts": {"query": "cold "}})):
                with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                    json.dump(fields, file)
            vectors = pipeline("feature-extraction", model=directory)
            one = vectors("a film is good", pooling="auto")
            self.assertEqual(len(one), 32)
            self.assertEqual(one, vectors("a film is bad", pooling="auto"))  # both are cut behind "a film"
            self.assertEqual(vectors("a film", pooling="auto", prompt_name="query"),
                             vectors("cold a film", pooling="auto"))


class GenerationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tiny.gpt2()
        cls.tokenizer = AutoTokenizer.from_pretrained(cls.holder.name)
        cls.model = AutoModelForCausalLM.from_pretrained(cls.holder.name)
        cls.ids = [[2, 5, 7]]

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def generate(self, **options):
        return self.model.generate(input_ids=self.ids, pad_token_id=0, **options).tolist()

    def test_greedy_is_the_argmax_of_each_step(self):
        ids = [list(self.ids[0])]
        for _ in range(4):
            ids[0].append(self.model(input_ids=ids).logits[0, -1].argmax().item())
        self.assertEqual(self.generate(max_new_tokens=4, eos_token_id=99), ids)

    def test_sampling_follows_the_seed(self):
        drawn = [self.generate(do_sample=True, max_new_tokens=8, seed=seed) for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_configuration(self):
        config = GenerationConfig(max_new_tokens=2, num_beams=2, pad_token_id=0)
        self.assertLessEqual(len(self.model.generate(input_ids=self.ids, generation_config=config).tolist()[0]), 5)
        with self.assertRaisesRegex(ValueError, "max_new_tokenz"):
            self.generate(max_new_tokenz=3)

    def test_embeddings_of_the_prompt_give_its_text(self):
        table = self.model.get_input_embeddings().weight.tolist()
        rows = [[table[token] for token in self.ids[0]]]
        options = dict(max_new_tokens=4, eos_token_id=99, pad_token_id=0)
        self.assertEqual(self.model.generate(inputs_embeds=rows, **options).tolist()[0],
                         self.generate(max_new_tokens=4, eos_token_id=99)[0][len(self.ids[0]):])
        self.assertEqual(self.model.generate(inputs_embeds=rows, input_ids=self.ids, **options).tolist(),
                         self.generate(max_new_tokens=4, eos_token_id=99))

    def test_streams_from_another_thread(self):
        streamer = TextIteratorStreamer(self.tokenizer, skip_prompt=True, timeout=60)
        options = dict(input_ids=self.ids, max_new_tokens=5, pad_token_id=0, streamer=streamer)
        thread = threading.Thread(target=self.model.generate, kwargs=options)
        thread.start()
        text = "".join(streamer)
        thread.join()
        whole = self.generate(max_new_tokens=5)[0][len(self.ids[0]):]
        self.assertEqual(text, self.tokenizer.decode(whole))

    def test_ctrl_c(self):
        """Python's signal ends a computation that would take far longer, and none that comes after it."""
        for delay in (0.05, 0.1, 0.15, 0.2):
            timer = threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                while time.monotonic() - begin < 60:
                    self.generate(max_new_tokens=60, eos_token_id=99)
            timer.join()
            for _ in range(3):
                self.assertEqual(len(self.generate(max_new_tokens=3, eos_token_id=99)[0]), 6)


if __name__ == "__main__":
    unittest.main()
