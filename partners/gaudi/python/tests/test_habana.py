# SPDX-License-Identifier: Apache-2.0
import tempfile
import unittest

import tiny
from transom import AutoModelForSequenceClassification, AutoTokenizer, GaudiTrainer
from transom.habana import GaudiConfig, GaudiTrainingArguments


class HabanaTest(unittest.TestCase):
    def test_a_trainer_by_its_names(self):
        with tiny.bert(num_labels=2) as model, tempfile.TemporaryDirectory(prefix="transom-test-") as out:
            tokenizer = AutoTokenizer.from_pretrained(model)
            rows = [{**tokenizer(text), "label": label} for text, label in zip(tiny.TEXTS, tiny.LABELS)]
            arguments = GaudiTrainingArguments(output_dir=out, num_train_epochs=1, report_to="none", disable_tqdm=True,
                                               save_strategy="no", use_habana=False, use_lazy_mode=True)
            trainer = GaudiTrainer(model=AutoModelForSequenceClassification.from_pretrained(model), args=arguments,
                                   gaudi_config=GaudiConfig(use_fused_adam=True), train_dataset=rows,
                                   processing_class=tokenizer)
            self.assertGreater(trainer.train().global_step, 0)


if __name__ == "__main__":
    unittest.main()
