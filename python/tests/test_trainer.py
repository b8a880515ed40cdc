# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import json
import os
import tempfile
import time
import unittest

import tiny
from transom import (AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForQuestionAnswering,
                     AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer,
                     DataCollatorForLanguageModeling, DataCollatorForTokenClassification, EarlyStoppingCallback,
                     HfArgumentParser, LoraConfig, Trainer, TrainerCallback, TrainingArguments, get_peft_model)

try:
    import numpy
except ImportError:
    numpy = None


def accuracy(prediction):
    return {"accuracy": (prediction.predictions.argmax(-1) == prediction.label_ids).mean()}


@unittest.skipUnless(numpy, "needs numpy")
class TrainerTest(unittest.TestCase):
    def setUp(self):
        self.folders = []
        self.model_directory = self.keep(tiny.bert(num_labels=2))
        self.tokenizer = AutoTokenizer.from_pretrained(self.model_directory)
        self.rows = [{**self.tokenizer(text), "label": label, "text": text}
                     for text, label in zip(tiny.TEXTS, tiny.LABELS)]
        self.out = self.keep(tempfile.TemporaryDirectory(prefix="transom-test-"))

    def tearDown(self):
        for folder in self.folders:
            folder.cleanup()

    def keep(self, folder):
        self.folders.append(folder)
        return folder.name

    def arguments(self, kind=TrainingArguments, **changes):
        fields = dict(output_dir=self.out, num_train_epochs=2, per_device_train_batch_size=2, learning_rate=1e-2,
                      logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True)
        return kind(**{**fields, **changes})

    def trainer(self, kind=Trainer, **changes):
        options = dict(args=self.arguments(), train_dataset=self.rows, processing_class=self.tokenizer)
        if "model" not in changes:
            options["model"] = AutoModelForSequenceClassification.from_pretrained(self.model_directory)
        result = kind(**{**options, **changes})
        result.callbacks.pop(0)  # prints
        return result

    def test_the_loss_falls_and_the_model_is_saved(self):
        trainer = self.trainer(args=self.arguments(num_train_epochs=12), eval_dataset=self.rows,
                               compute_metrics=accuracy)
        before = trainer.evaluate()
        result = trainer.train()
        after = trainer.evaluate()
        self.assertEqual(result.global_step, 48)
        self.assertLess(after["eval_loss"], before["eval_loss"] / 2)
        self.assertEqual(after["eval_accuracy"], 1)
        losses = [record["loss"] for record in trainer.state.log_history if "loss" in record]
        self.assertEqual(len(losses), 48)
        trainer.save_model(self.out)
        again = AutoModelForSequenceClassification.from_pretrained(self.out)
        inputs = AutoTokenizer.from_pretrained(self.out)(tiny.TEXTS, padding=True)
        self.assertEqual(again(**inputs).logits.argmax(-1).tolist(), tiny.LABELS)
        self.assertEqual(trainer.model(**inputs).logits.argmax(-1).tolist(), tiny.LABELS)

    def test_predictions_are_the_models_answers(self):
        trainer = self.trainer(args=self.arguments(per_device_eval_batch_size=3))
        output = trainer.predict(self.rows)
        self.assertEqual(output.predictions.shape, (8, 2))
        self.assertEqual(output.label_ids.tolist(), tiny.LABELS)
        alone = trainer.model(**self.tokenizer([tiny.TEXTS[7]])).logits.tolist()[0]
        numpy.testing.assert_allclose(output.predictions[7], alone, atol=1e-5)

    def test_predictions_tell_speed_and_memory(self):
        waits = []

        def slow(prediction):
            time.sleep(0.2)
            waits.append(len(prediction.label_ids))
            return {"rows": len(prediction.label_ids)}

        told = []

        class Sees(TrainerCallback):
            def on_predict(self, args, state, control, metrics, **_):
                told.append(dict(metrics))

        trainer = self.trainer(args=self.arguments(per_device_eval_batch_size=3, skip_memory_metrics=False),
                               compute_metrics=slow, callbacks=[Sees])
        first = trainer.predict(self.rows, metric_key_prefix="held_out").metrics
        speed = {"held_out_runtime", "held_out_samples_per_second", "held_out_steps_per_second"}
        memory = {"test_mem_cpu_alloc_delta", "test_mem_cpu_peaked_delta"}
        of_init = {"init_mem_cpu_alloc_delta", "init_mem_cpu_peaked_delta", "before_init_mem_cpu"}
        self.assertEqual(set(first), {"held_out_loss", "held_out_rows"} | speed | memory | of_init)
        self.assertEqual(waits, [8])
        self.assertGreaterEqual(first["held_out_runtime"], 0.2)
        self.assertAlmostEqual(first["held_out_samples_per_second"], 8 / first["held_out_runtime"], delta=0.1)
        self.assertAlmostEqual(first["held_out_steps_per_second"], 3 / first["held_out_runtime"], delta=0.1)
        self.assertTrue(all(isinstance(first[name], int) for name in memory | of_init))
        self.assertGreater(first["before_init_mem_cpu"], 1 << 20)
        self.assertEqual(set(told[0]), set(first) - memory - of_init)
        second = trainer.predict(self.rows).metrics
        self.assertEqual({name for name in second if "_mem_" in name}, memory)
        self.assertFalse([name for name in self.trainer().predict(self.rows).metrics if "_mem_" in name])

    def test_the_same_seed_gives_the_same_run(self):
        runs = [[r["loss"] for r in t.state.log_history if "loss" in r]
                for t in (self.trainer(args=self.arguments(seed=seed)) for seed in (1, 1, 2)) if t.train()]
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    def test_resumed_runs_end_alike(self):
        changes = dict(save_strategy="steps", save_steps=3)
        whole = self.trainer(args=self.arguments(**changes))
        whole.train()
        self.assertTrue(os.path.isdir(os.path.join(self.out, "checkpoint-3")))
        resumed = self.trainer(args=self.arguments(**changes))
        resumed.train(resume_from_checkpoint=os.path.join(self.out, "checkpoint-3"))
        inputs = self.tokenizer(tiny.TEXTS, padding=True)
        self.assertEqual(resumed.model(**inputs).logits.tolist(), whole.model(**inputs).logits.tolist())
        self.assertTrue(os.path.exists(os.path.join(self.out, "checkpoint-3", "tokenizer_config.json")))

    def test_callbacks(self):
        events = []

        class Recorder(TrainerCallback):
            def on_train_begin(self, args, state, control, **kwargs):
                events.append("train")

            def on_epoch_begin(self, args, state, control, **kwargs):
                events.append("epoch")

            def on_step_end(self, args, state, control, **kwargs):
                events.append(state.global_step)
                control.should_training_stop = state.global_step == 5
                control.should_evaluate = state.global_step == 2

            def on_evaluate(self, args, state, control, metrics=None, **kwargs):
                events.append(sorted(metrics)[0])

            def on_log(self, args, state, control, logs=None, **kwargs):
                assert "loss" in logs or "train_loss" in logs or "eval_loss" in logs

            def on_train_end(self, args, state, control, **kwargs):
                events.append("end")

        trainer = self.trainer(callbacks=[Recorder], eval_dataset=self.rows)
        trainer.train()
        self.assertEqual(events, ["train", "epoch", 1, 2, "eval_loss", 3, 4, "epoch", 5, "end"])
        self.assertEqual(trainer.state.global_step, 5)

    def test_an_exception_of_a_callback_or_a_data_set_comes_out(self):
        class Breaks(TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            self.trainer(callbacks=[Breaks()]).train()

        class Rows:
            def __len__(self):
                return 4

            def __getitem__(self, i):
                raise IndexError("row of mine")

        with self.assertRaisesRegex(IndexError, "row of mine"):
            self.trainer(train_dataset=Rows(), args=self.arguments(remove_unused_columns=False)).train()

    def test_early_stopping(self):
        arguments = self.arguments(num_train_epochs=20, eval_strategy="epoch", save_strategy="epoch",
                                   load_best_model_at_end=True, metric_for_best_model="loss", learning_rate=0.0)
        trainer = self.trainer(args=arguments, eval_dataset=self.rows, callbacks=[EarlyStoppingCallback(2)])
        trainer.train()
        self.assertEqual(trainer.state.global_step, 3 * 4)

    def test_two_trainers_of_one_model(self):
        model = AutoModelForSequenceClassification.from_pretrained(self.model_directory)
        self.trainer(model=model).train()
        inputs = self.tokenizer(tiny.TEXTS, padding=True)
        between = model(**inputs).logits.tolist()
        second = self.trainer(model=model, eval_dataset=self.rows)
        self.assertEqual(model(**inputs).logits.tolist(), between)
        second.train()
        self.assertNotEqual(model(**inputs).logits.tolist(), between)

    def test_code_of_torch_is_refused(self):
        class Mine(Trainer):
            def compute_loss(self, model, inputs):
                return 0

        with self.assertRaisesRegex(NotImplementedError, "compute_loss"):
            self.trainer(kind=Mine)
        with self.assertRaisesRegex(NotImplementedError, "optim"):
            self.trainer(optimizers=(object(), None))
        with self.assertRaisesRegex(ValueError, "from_pretrained"):
            self.trainer(model=object())

    def test_tokens(self):
        model = AutoModelForTokenClassification.from_pretrained(self.keep(tiny.bert("token", num_labels=3)))
        rows = []
        for text in tiny.TEXTS:
            row = dict(self.tokenizer(text))
            row["labels"] = [-100] + [i % 3 for i in range(len(row["input_ids"]) - 2)] + [-100]
            rows.append(row)
        trainer = self.trainer(model=model, train_dataset=rows, eval_dataset=rows,
                               data_collator=DataCollatorForTokenClassification(self.tokenizer))
        trainer.train()
        output = trainer.predict(rows)
        self.assertEqual(output.predictions.shape, (8, 9, 3))
        self.assertEqual(output.label_ids.shape, (8, 9))
        self.assertEqual(output.label_ids[0].tolist(), [-100, 0, 1, 2, 0, -100, -100, -100, -100])

    def test_spans(self):
        model = AutoModelForQuestionAnswering.from_pretrained(self.keep(tiny.bert("question")))
        rows = [{**self.tokenizer("the film", text), "start_positions": 4, "end_positions": 5 + i % 2}
                for i, text in enumerate(tiny.TEXTS)]
        trainer = self.trainer(model=model, train_dataset=rows)
        trainer.train()
        output = trainer.predict(rows)
        self.assertEqual([array.shape[0] for array in output.predictions], [8, 8])
        self.assertEqual([list(array) for array in output.label_ids], [[4] * 8, [5, 6] * 4])

    def test_language_models(self):
        model = AutoModelForMaskedLM.from_pretrained(self.keep(tiny.bert("masked")))
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm_probability=0.5, seed=3)
        batch = collator([{"input_ids": row["input_ids"]} for row in self.rows])
        ids, labels = batch["input_ids"].tolist(), batch["labels"].tolist()
        for row, old, answers in zip(ids, self.rows, labels):
            for place, token in enumerate(old["input_ids"]):
                self.assertIn(answers[place], (-100, token))
                if answers[place] == -100:
                    self.assertEqual(row[place], token)
        self.trainer(model=model, data_collator=collator).train()
        writer = AutoModelForCausalLM.from_pretrained(self.keep(tiny.gpt2()))
        trainer = self.trainer(model=writer, data_collator=DataCollatorForLanguageModeling(self.tokenizer, mlm=False),
                               eval_dataset=self.rows,
                               preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1))
        trainer.train()
        self.assertEqual(trainer.predict(self.rows).predictions.dtype, numpy.int64)

    def test_adapters(self):
        model = AutoModelForSequenceClassification.from_pretrained(self.model_directory)
        model = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=["query", "value"],
                                                 task_type="SEQ_CLS", lora_dropout=0.0))
        trained, everything = model.get_nb_trainable_parameters()
        self.assertLess(trained, everything / 4)
        trainer = self.trainer(model=model)
        trainer.train()
        trainer.save_model(self.out)
        with open(os.path.join(self.out, "adapter_config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["r"], 4)
        inputs = self.tokenizer(tiny.TEXTS, padding=True)
        numpy.testing.assert_allclose(model.merge_and_unload()(**inputs).logits.numpy(),
                                      model(**inputs).logits.numpy(), atol=1e-5)

    def test_metrics_files(self):
        trainer = self.trainer()
        trainer.save_metrics("train", {"train_loss": 1.5})
        trainer.save_metrics("eval", {"eval_loss": 2.5})
        trainer.save_state()
        with open(os.path.join(self.out, "all_results.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"train_loss": 1.5, "eval_loss": 2.5})
        self.assertTrue(os.path.exists(os.path.join(self.out, "trainer_state.json")))

    def test_metrics_are_printed_as_transformers_prints_them(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self.trainer().log_metrics("test", {"test_runtime": 3725.5, "test_loss": 0.123456, "epoch": 2.0, "test_samples": 8,
                                                "total_flos": 3.0 * 2**30, "test_mem_cpu_alloc_delta": (5 << 20) + 7})
        self.assertEqual(output.getvalue(), "***** test metrics *****\n"
                         "  epoch                    =        2.0\n"
                         "  test_loss                =     0.1235\n"
                         "  test_mem_cpu_alloc_delta =        5MB\n"
                         "  test_runtime             = 1:02:05.50\n"
                         "  test_samples             =          8\n"
                         "  total_flos               =        3GF\n")

    def test_arguments(self):
        older = TrainingArguments("x", evaluation_strategy="steps", no_cuda=True, warmup_ratio=0.1)
        self.assertEqual(older.eval_strategy, "steps")
        with self.assertRaisesRegex(ValueError, "learning_rat"):
            TrainingArguments("x", learning_rat=1)
        import dataclasses

        @dataclasses.dataclass
        class ModelArguments:
            model_name_or_path: str = dataclasses.field(metadata={"help": "the model"})
            flag: bool = dataclasses.field(default=True)

        model, training = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses(
            ["--model_name_or_path", "m", "--no_flag", "--output_dir", "o", "--learning_rate", "1e-3", "--do_train"])
        self.assertEqual((model.model_name_or_path, model.flag), ("m", False))
        self.assertEqual((training.output_dir, training.learning_rate, training.do_train), ("o", 1e-3, True))


if __name__ == "__main__":
    unittest.main()
